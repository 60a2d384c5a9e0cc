/* SPDX-License-Identifier: MIT */
/*
 * The barn's hand-over: sheaf pointers travel in small nodes between three
 * lock-free stacks (full sheaves, empty sheaves, nodes without a sheaf).
 * Nodes live until destroy, so reading a node that is no longer on the stack
 * is allowed; believing what was read is not.  The stacks are modelled as ck
 * has them: a push swings the head alone, a pop swings head and generation.
 *
 * A place in a stack of sheaves is reserved by a counter before the push, so
 * a stack never holds more than its limit.
 *
 * Ghosts: nown[] (who has a node), sown[] (who has a sheaf).  doc/drain.md
 * maps the steps to C.  Parameters: OPS1..3, MAXFULL, MAXEMPTY, FAULT, REACH.
 */

#ifndef OPS1
#define OPS1	1
#endif
#ifndef OPS2
#define OPS2	2
#endif
#ifndef OPS3
#define OPS3	2
#endif
#ifndef MAXFULL
#define MAXFULL	2
#endif
#ifndef MAXEMPTY
#define MAXEMPTY 1
#endif
#ifndef FAULT
#define FAULT	0
#endif
#ifndef REACH
#define REACH	0
#endif

#define UNTAGGED	1	/* a pop compares the head alone */
#define RESERVE_LATE	2	/* the counter is raised after the push */
#define READ_AFTER_PUSH	3	/* node->sheaf read once the node is given away */
#define PLACE_FIRST	4	/* the place is given back before the node */

#define REACHED(n)	assert(REACH != (n))

#define NNODE	(MAXFULL + MAXEMPTY)
#define limit(k) ((k) == FULL -> MAXFULL : MAXEMPTY)
#define NSHEAF	(MAXFULL + 2)
#define STACKS	3

/* The stacks. */
#define FREE	0		/* barn->unused */
#define FULL	1
#define EMPTIES	2

/* Ghost owners: a thread is its _pid (1..3), a stack is ON(k). */
#define ON(k)	(4 + (k))
#define NOWHERE	7		/* seen by at_rest */

byte head[STACKS], gen[STACKS];
byte count[STACKS];
byte next[NNODE + 1], sheaf[NNODE + 1];
byte nown[NNODE + 1];		/* ghost */
byte sown[NSHEAF + 1];		/* ghost */
byte depth[STACKS];		/* ghost: how many nodes are on it */
byte running = 3;

proctype user(byte x; byte ops)		/* x: the sheaf it holds, 0: none */
{
	byte k;			/* stack of the pop or push under way */
	byte kind;		/* stack of sheaves of the call under way */
	byte n;			/* node */
	byte h, g, nx;		/* head, generation, next as read */
	byte then;

next_call:
	atomic {
		kind = 0; n = 0; then = 0;
		if
		:: ops == 0 -> goto out
		:: ops > 0 -> ops--
		fi;
		if
		:: kind = FULL
		:: kind = EMPTIES
		fi;
		if
		:: x == 0 ->	/* [get], for pcp_barn_get_full, .._get_empty */
			k = kind; then = 1; goto pop
		:: else		/* [put], for pcp_barn_put_full, .._put_empty */
		fi
	}

#if FAULT == RESERVE_LATE
	if
	:: count[kind] >= limit(kind) -> goto next_call
	:: else
	fi;
#else
	atomic {
		count[kind]++;
		if
		:: count[kind] <= limit(kind)
		:: else -> goto unreserve
		fi
	}
#endif
	/* [PCP_HOOK_BARN_RESERVED] */
	atomic { k = FREE; then = 2; goto pop };
unreserve:
	atomic {
		REACHED(1);
		count[kind]--;
		goto next_call		/* refused: the caller keeps its sheaf */
	}
have_node:
	/* whoever has a place finds a node */
	assert(n != 0);
	atomic {
		assert(nown[n] == _pid && sown[x] == _pid);
		sheaf[n] = x;
		sown[x] = ON(kind);	/* published by the push */
		x = 0;
		k = kind; then = 3;
		goto push
	}
stored:
#if FAULT == RESERVE_LATE
	count[kind]++;
#endif
	goto next_call;

got_node:
	if
	:: n == 0 -> goto next_call	/* the barn has none */
	:: else
	fi;
#if FAULT != READ_AFTER_PUSH
	atomic {
		assert(nown[n] == _pid);
		x = sheaf[n];
		assert(x != 0 && sown[x] == ON(kind));
		sown[x] = _pid;
	}
#endif
#if FAULT == PLACE_FIRST
	count[kind]--;
#endif
	atomic { k = FREE; then = 4; goto push };
freed_node:
#if FAULT == READ_AFTER_PUSH
	atomic {
		x = sheaf[n];
		assert(x != 0 && sown[x] == ON(kind));
		sown[x] = _pid;
	}
#endif
#if FAULT != PLACE_FIRST
	count[kind]--;
#endif
	goto next_call;

pop:	/* ck_stack_pop_mpmc(k) -> n */
	g = gen[k];
	atomic {
		h = head[k];
		if
		:: h == 0 -> n = 0; goto pop_done
		:: else
		fi
	}
pop_next:
	nx = next[h];
	/* compare-and-swap of head and generation */
	atomic {
		if
#if FAULT == UNTAGGED
		:: head[k] == h ->
#else
		:: head[k] == h && gen[k] == g ->
#endif
			assert(nown[h] == ON(k));
			nown[h] = _pid;
			depth[k]--;
			head[k] = nx;
			gen[k]++;
			n = h;
			goto pop_done
		:: else ->
			if
			:: head[k] == h -> REACHED(2)	/* ABA, seen */
			:: else -> REACHED(3)
			fi;
			h = head[k];
			g = gen[k];
			if
			:: h == 0 -> n = 0; goto pop_done
			:: else -> goto pop_next
			fi
		fi
	}
pop_done:
	atomic {
		h = 0; g = 0; nx = 0; k = 0;
		if
		:: then == 1 -> then = 0; goto got_node
		:: then == 2 -> then = 0; goto have_node
		fi
	}

push:	/* ck_stack_push_mpmc(k, n) */
	h = head[k];
push_next:
	atomic {
		assert(nown[n] == _pid);
		next[n] = h
	}
	atomic {
		if
		:: head[k] == h ->
			head[k] = n;
			nown[n] = ON(k);
			depth[k]++;
			assert(k == FREE || depth[k] <= limit(k));
			h = 0; k = 0;
			if
			:: then == 3 -> then = 0; n = 0; goto stored
			:: then == 4 -> then = 0;
#if FAULT != READ_AFTER_PUSH
				n = 0;
#endif
				goto freed_node
			fi
		:: else ->
			REACHED(4);
			h = head[k];
			goto push_next
		fi
	}

out:
	atomic {
		if
		:: x != 0 -> assert(sown[x] == _pid); sown[x] = 0
		:: else
		fi;
		x = 0;
		running--
	}
}

/* At rest: every node on exactly one stack, every sheaf accounted for. */
proctype at_rest()
{
	byte k, n, seen;

	atomic {
		running == 0;
		do
		:: k < STACKS ->
			n = head[k];
			seen = 0;
			do
			:: n != 0 ->
				seen++;
				assert(seen <= NNODE);	/* a ring */
				assert(nown[n] == ON(k));
				if
				:: k != FREE ->
					assert(sown[sheaf[n]] == ON(k));
					sown[sheaf[n]] = 0
				:: else
				fi;
				nown[n] = NOWHERE;
				n = next[n]
			:: else -> break
			od;
			assert(seen == depth[k]);
			assert(k == FREE || count[k] == seen);
			k++
		:: else -> break
		od;
		n = 1;
		do
		:: n <= NNODE -> assert(nown[n] == NOWHERE); n++
		:: else -> break
		od;
		n = 1;
		do
		:: n <= NSHEAF -> assert(sown[n] == 0); n++
		:: else -> break
		od
	}
}

/* All places for full sheaves taken, in nodes 1.., the other nodes free. */
init
{
	byte n;

	atomic {
		n = NNODE;
		do
		:: n > MAXFULL ->
			next[n] = head[FREE];
			head[FREE] = n;
			nown[n] = ON(FREE);
			depth[FREE]++;
			n--
		:: n > 0 && n <= MAXFULL ->
			next[n] = head[FULL];
			head[FULL] = n;
			nown[n] = ON(FULL);
			depth[FULL]++;
			sheaf[n] = n;
			sown[n] = ON(FULL);
			n--
		:: n == 0 -> break
		od;
		count[FULL] = depth[FULL];
		run user(0, OPS1);
		if
		:: run user(0, OPS2)
		:: sown[NSHEAF - 1] = 2; run user(NSHEAF - 1, OPS2)
		fi;
		if
		:: run user(0, OPS3)
		:: sown[NSHEAF] = 3; run user(NSHEAF, OPS3)
		fi;
		run at_rest()
	}
}
