/* SPDX-License-Identifier: MIT */
/*
 * The slot protocol: restartable sections, the slow paths' local changes, and
 * the remote drain.  doc/drain.md explains it and maps each step to its C
 * function; the names in [brackets] below are those functions and hooks.
 *
 * Who has an object or a sheaf at any moment is kept in two ghost arrays,
 * oown[] and sown[], which the protocol never reads.  Every step that moves
 * one asserts where it came from, so a double owner fails at the second move.
 *
 * A section is modelled by sec[cpu], the thread whose section is live there:
 * whoever starts a section on a CPU has preempted the one before, the fence
 * clears it, and every later step of a section that is no longer live is its
 * abort.  Being aborted for any other reason (a signal, migration) is a free
 * choice at the committing step: nothing was published before it.
 *
 * Nothing here waits and each thread makes a bounded number of calls, so a
 * run that never ends is a cycle.  `check` asks for: no assertion fails, every
 * run ends in the final state (no deadlock), and there is no cycle at all,
 * which is stronger than "no slot is stuck under weak fairness".
 *
 * Parameters, set by check with -D: CAP, OPS, DRAINS, RESTARTS, FAULT, REACH.
 */

#ifndef CAP
#define CAP	1		/* capacity of a sheaf */
#endif
#ifndef OPS
#define OPS	2		/* calls of the first thread */
#endif
#ifndef OPS2
#define OPS2	1		/* calls of the second thread */
#endif
#ifndef DRAINS
#define DRAINS	1		/* drains of slot 0 beside the threads */
#endif
#ifndef SLOTS
#define SLOTS	1		/* 1: slot 0 is drained, 2: both, one fence */
#endif
#ifndef RESTARTS
#define RESTARTS 0		/* restarts before a call goes past the slots */
#endif
#ifndef FAULT
#define FAULT	0
#endif
#ifndef REACH
#define REACH	0
#endif

/* Planted faults. */
#define NO_FENCE	1	/* the drainer does not fence */
#define NO_CLOSED_CHECK	2	/* a change of spare ignores CLOSED */
#define NO_RECHECK	3	/* the drainer does not look again at main */
#define ONE_SENTINEL	4	/* EMPTY is CLOSED, changes of main allow it */
#define PLAIN_PUT_BACK	5	/* failed fence: main put back by a store */
#define DRAIN_UNFENCED	6	/* failed fence: drains all the same */
#define NO_EXPECT_CHECK	7	/* a change does not look at the old word */
#define OPEN_EARLY	8	/* main reopened before spare is emptied */
#define STRICT_SENTINEL	9	/* EMPTY is CLOSED, changes still refuse it */
#define PEEK		10	/* a slow path reads main's size unowned */
#define FENCE_FIRST	11	/* the fence comes before the exchange */
#define STAY_CLOSED	12	/* failed fence: main is left CLOSED */
#define SPIN_CLOSED	13	/* a call waits for a closed slot to reopen */

/*
 * A situation that must be possible, lest a check pass because it never
 * comes up.  `check` runs the model once for each and wants this to fail.
 */
#define REACHED(n)	assert(REACH != (n))

/* Sheaves: NIL is NULL, then the sentinels, then the real ones. */
#define NIL	0
#define EMPTY	1
#if FAULT == ONE_SENTINEL || FAULT == STRICT_SENTINEL
#define CLOSED	EMPTY
#else
#define CLOSED	2
#endif
#define FIRST	3
#define NSHEAF	4
#define LAST	(FIRST + NSHEAF - 1)
#define real(s)	((s) >= FIRST)
#define cap(s)	(real(s) -> CAP : 0)

/* Ghost owners; a thread is its _pid, 1 or 2. */
#define NOWHERE	0		/* sheaf: not allocated; object: in its slab */
#define DRAINER	3
#define BARN	4
#define IN_SHEAF 5		/* objects */
#define SLOT(c)	(6 + (c))	/* sheaves: 6, 7 */

#define NOBJ	(2 * CAP + 1)
#define NOOBJ	NOBJ

/* The words of a slot. */
#define MAIN	0
#define SPARE	1
#define W(c, w)	slotw[2 * (c) + (w)]

byte slotw[4];
byte sec[2];			/* thread whose section is live, 0: none */
byte size[LAST + 2];		/* one more than there are: quiets gcc */
byte objs[(LAST + 2) * CAP];
byte sown[LAST + 1];		/* ghost */
byte oown[NOBJ];		/* ghost */
byte full_barn, empty_barn, part_barn; /* the barn, one place each: barn.pml */
byte running = 2;

#define ALLOC	0
#define FREE	1

/* A section may read a sheaf only while the slot it runs on hooks it. */
#define check_touch(s, c)	assert(!real(s) || sown[s] == SLOT(c))

/* One object out of, or into, sheaf s. */
#define top(s)		objs[(s) * CAP + size[s] - 1]
#define place(s)	objs[(s) * CAP + size[s]]

/* Slab side, atomic here: see slab.pml.  x is NOOBJ if there is none. */
inline slab_take(x, who)
{
	x = 0;
	do
	:: x < NOBJ && oown[x] != NOWHERE -> x++
	:: else -> break
	od;
	if :: x < NOBJ -> oown[x] = who :: else fi
}

inline slab_give(x, who)
{
	assert(oown[x] == who);
	oown[x] = NOWHERE
}

/* All objects of a sheaf back to their slabs. */
inline sheaf_flush(s)
{
	do
	:: size[s] > 0 ->
		slab_give(top(s), IN_SHEAF);
		size[s]--;
		place(s) = 0
	:: else -> break
	od
}

inline sheaf_free(s)
{
	assert(size[s] == 0);
	sown[s] = NOWHERE
}

inline sheaf_new(s, who)
{
	s = FIRST;
	do
	:: s <= LAST && sown[s] != NOWHERE -> s++
	:: else -> break
	od;
	if
	:: s > LAST -> s = NIL	/* no memory */
	:: else -> sown[s] = who
	fi
}

/* A sheaf a slow path is left with: to the barn, or flushed to the slabs. */
inline sheaf_put_away(s)
{
	assert(sown[s] == _pid);
	if
	:: size[s] == CAP && full_barn == NIL ->
		full_barn = s; sown[s] = BARN
	:: size[s] == 0 && empty_barn == NIL ->
		empty_barn = s; sown[s] = BARN
	:: size[s] > 0 && size[s] < CAP && part_barn == NIL ->
		part_barn = s; sown[s] = BARN
	:: else ->
		sheaf_flush(s);
		sheaf_free(s)
	fi
}

proctype thread(byte o; byte ops)
{
	byte restarts;
	byte sl;		/* the slot this attempt is about */
	byte m, s;		/* main as it saw it; the sheaf it works with */
	byte n;
	bit kind;
	/* the call of pcp_slot_commit under way */
	byte word, want, new, then;
	bool ok;

next_call:
	atomic {
		/* locals are cleared so that equal states look equal */
		restarts = 0; sl = 0; m = 0; s = 0; n = 0;
		word = 0; want = 0; new = 0; then = 0; ok = false;
		if
		:: ops == 0 -> goto out
		:: ops > 0 && o == NOOBJ -> kind = ALLOC
		:: ops > 0 && o != NOOBJ -> kind = FREE
		fi;
		ops--
	}

fast:	/* [pcp_slot_pop], [pcp_slot_push]: start, load slot->main */
	atomic {
		if :: sl = 0 :: sl = 1 fi;
		sec[sl] = _pid;
		s = W(sl, MAIN)
	}
	atomic {	/* load s->size and the object, or store the object */
		if
		:: sec[sl] != _pid -> goto aborted
		:: else
		fi;
		check_touch(s, sl);
		n = size[s];
		if
		:: kind == ALLOC && n == 0 ->
			sec[sl] = 0; goto slow
		:: kind == FREE && n == cap(s) ->
			sec[sl] = 0; goto slow
		:: kind == ALLOC && n > 0 -> o = top(s)
		:: kind == FREE && n < cap(s) -> place(s) = o
		fi
	}
	atomic {	/* commit s->size */
		if
		:: sec[sl] != _pid ->
			REACHED(1);
			if :: kind == ALLOC -> o = NOOBJ :: else fi;
			goto aborted
		:: sec[sl] == _pid ->	/* signal or migration */
			sec[sl] = 0;
			if :: kind == ALLOC -> o = NOOBJ :: else fi;
			goto aborted
		:: sec[sl] == _pid ->
			sec[sl] = 0;
			check_touch(s, sl);
			if
			:: W(sl, MAIN) != s -> REACHED(2)  /* closed by now */
			:: else
			fi;
			if
			:: kind == ALLOC ->
				size[s] = n - 1;
				assert(oown[o] == IN_SHEAF);
				oown[o] = _pid
			:: kind == FREE ->
				size[s] = n + 1;
				assert(oown[o] == _pid);
				oown[o] = IN_SHEAF;
				o = NOOBJ
			fi;
			goto next_call
		fi
	}
aborted:
	atomic {
		s = 0; n = 0;
		restarts++;
		if
		:: restarts > RESTARTS -> goto bypass
		:: else -> goto fast
		fi
	}

slow:	/* [pcp_slot_alloc_slow], [pcp_slot_free_slow]; [pcp_slot_usable] */
	atomic {
		n = 0; s = NIL;
		if
		:: W(sl, MAIN) == CLOSED && CLOSED != EMPTY ->
			REACHED(3);
			if
			:: FAULT == SPIN_CLOSED -> goto fast
			:: else -> goto bypass
			fi
		:: else
		fi
	}
#if FAULT == PEEK
	m = W(sl, MAIN);
	check_touch(m, sl);
#endif
	atomic {	/* [pcp_slot_unhook] of the spare */
		s = W(sl, SPARE);
		if
		:: s == NIL -> goto have_spare
		:: s != NIL ->
			word = SPARE; want = s; new = NIL; then = 1
		fi
	}
	goto commit;

have_spare:	/* [PCP_HOOK_ALLOC_UNHOOKED_SPARE, ..FREE..]; or it has none */
	atomic {
		if
		:: s != NIL && !ok -> s = NIL
		:: else
		fi;
		if
		/* [get_stocked] */
		:: kind == ALLOC && s != NIL && size[s] > 0 -> goto serve
		:: kind == ALLOC && (s == NIL || size[s] == 0) ->
			if
			:: full_barn != NIL ->
				m = full_barn; full_barn = NIL
			:: full_barn == NIL && part_barn != NIL ->
				m = part_barn; part_barn = NIL
			:: else
			fi;
			if
			:: m != NIL ->
				REACHED(17);
				sown[m] = _pid;
				if
				:: s != NIL -> sheaf_put_away(s)
				:: else
				fi;
				s = m; m = 0;
				goto serve
			:: m == NIL && s != NIL -> goto serve
			:: m == NIL && s == NIL -> goto unhook_main
			fi
		/* [get_roomy] */
		:: kind == FREE && s != NIL && size[s] < CAP -> goto serve
		:: kind == FREE && s != NIL && size[s] == CAP ->
			if
			:: full_barn == NIL ->
				full_barn = s; sown[s] = BARN;
				s = NIL;
				goto new_sheaf
			:: else ->
				sheaf_flush(s);
				goto serve
			fi
		:: kind == FREE && s == NIL -> goto new_sheaf
		fi
	}

unhook_main:	/* [to_fill]: [pcp_slot_unhook] of the main */
	atomic {
		m = W(sl, MAIN);
		if
		:: !real(m) -> goto new_sheaf
		:: real(m) ->
			word = MAIN; want = m; new = EMPTY; then = 2
		fi
	}
	goto commit;

unhooked_main:
	atomic {
		if
		:: ok -> s = m; m = 0; goto serve
		:: !ok -> goto new_sheaf
		fi
	}

new_sheaf:
	atomic {
		m = 0;
		if
		:: empty_barn != NIL ->
			s = empty_barn; empty_barn = NIL; sown[s] = _pid
		:: else -> sheaf_new(s, _pid)
		fi;
		if
		:: s == NIL -> goto bypass
		:: else
		fi
	}

serve:	/* s is this thread's: fill it if need be, serve the call from it */
	atomic {
		assert(sown[s] == _pid);
		word = MAIN; new = s; then = 3;
		if
		:: kind == ALLOC ->
			if
			:: size[s] == 0 ->	/* [fill] */
				do
				:: size[s] < CAP ->
					slab_take(n, IN_SHEAF);
					if
					:: n == NOOBJ -> break
					:: else -> place(s) = n; size[s]++
					fi
				:: else -> break
				od;
				n = 0
			:: else
			fi;
			if
			:: size[s] == 0 ->	/* nothing can be built */
				REACHED(18);
				word = SPARE; then = 4
			:: else ->		/* [pcp_sheaf_pop] */
				o = top(s);
				assert(oown[o] == IN_SHEAF);
				oown[o] = _pid;
				size[s]--;
				place(s) = 0
			fi
		:: kind == FREE ->		/* [pcp_sheaf_push] */
			assert(oown[o] == _pid);
			place(s) = o;
			size[s]++;
			oown[o] = IN_SHEAF;
			o = NOOBJ
		fi;
		kind = 0
	}
	atomic {	/* [pcp_slot_install] looks at main */
		if
		:: then == 3 -> m = W(sl, MAIN); want = m
		:: else -> m = 0; want = NIL
		fi
	}
	/* [PCP_HOOK_ALLOC_HOOK_MAIN, ..FREE..] */
	goto commit;

hooked_main:
	atomic {
		if
		:: ok && !real(m) -> REACHED(5); goto next_call
		:: ok && real(m) -> s = m
		:: !ok -> REACHED(4)
		fi;
		m = 0;
		word = SPARE; want = NIL; new = s; then = 4
	}
	/* [PCP_HOOK_ALLOC_PUT_OLD, ..FREE..] */
	goto commit;

put_old:	/* [pcp_stock_put_sheaf] */
	atomic {
		if
		:: ok
		:: else -> REACHED(6); sheaf_put_away(s)
		fi;
		goto next_call
	}

	/*
	 * [pcp_slot_commit] (slot, word, want, new), from and back to `then`.
	 * Start; is this still the slot's CPU, is the slot open?
	 */
commit:
	atomic {
		ok = false;
		if
		:: goto commit_done	/* on the other CPU now */
		:: sec[sl] = _pid
		fi;
		if
		:: W(sl, MAIN) == CLOSED && FAULT != ONE_SENTINEL &&
		   !(word == SPARE && FAULT == NO_CLOSED_CHECK) ->
			sec[sl] = 0;
			REACHED(7);
			goto commit_done
		:: else
		fi;
		/*
		 * Does the word still hold what was seen?  In one step with
		 * the look at main: between the two, main can only become
		 * CLOSED, which then is not what was seen, and spare cannot
		 * change before the fence.
		 */
		if
		:: W(sl, word) != want && FAULT != NO_EXPECT_CHECK ->
			sec[sl] = 0; goto commit_done
		:: else
		fi
	}
	atomic {	/* commit *word */
		if
		:: sec[sl] != _pid -> REACHED(8)
		:: sec[sl] == _pid ->	/* signal or migration */
			sec[sl] = 0
		:: sec[sl] == _pid ->
			sec[sl] = 0;
			assert(!real(want) || sown[want] == SLOT(sl));
			assert(!real(new) || sown[new] == _pid);
			if
			:: W(sl, MAIN) == CLOSED && word == SPARE -> REACHED(9)
			:: W(sl, MAIN) == CLOSED && word == MAIN -> REACHED(10)
			:: else
			fi;
			W(sl, word) = new;
			if :: real(want) -> sown[want] = _pid :: else fi;
			if :: real(new) -> sown[new] = SLOT(sl) :: else fi;
			ok = true
		fi
	}
commit_done:
	atomic {
		word = 0; want = 0; new = 0;
		if
		:: then == 1 -> then = 0; goto have_spare
		:: then == 2 -> then = 0; goto unhooked_main
		:: then == 3 -> then = 0; goto hooked_main
		:: then == 4 -> then = 0; goto put_old
		fi
	}

bypass:	/* past the slots, to the slabs */
	atomic {
		if
		:: kind == ALLOC -> slab_take(o, _pid)
		:: kind == FREE -> slab_give(o, _pid); o = NOOBJ
		fi;
		goto next_call
	}

out:	/* give back what is left, past the slots */
	atomic {
		if
		:: o != NOOBJ -> slab_give(o, _pid); o = NOOBJ
		:: else
		fi;
		running--
	}
}

/* What a drained sheaf's new owner does with it. */
inline drain_release(s)
{
	if
	:: real(s) ->
		assert(sown[s] == DRAINER);
		sheaf_flush(s);
		sheaf_free(s)
	:: else
	fi
}

/*
 * [pcp_stock_drain], under the cache's drain lock: one process, so no lock.
 * One slot in use is drained by [drain_slot]; with more, [drain_slots] closes
 * them all, fences all CPUs once, and drains singly those a local commit won.
 */
proctype drainer()
{
	byte drains = DRAINS;
	byte olds[2], sp;
	byte c;
	bool failed;

again:
	atomic {
		c = 0; failed = false; olds[0] = NIL; olds[1] = NIL; sp = 0;
		if
		:: drains > 0 ->
			drains--;
			if
			:: SLOTS == 1 -> goto close_one
			:: else
			fi
		:: drains == 0 && running == 0 -> goto at_rest
		fi
	}
close_all:
	atomic {	/* [drain_slots]: exchange(main, CLOSED) */
		assert(W(c, MAIN) != CLOSED || CLOSED == EMPTY);
		if
		:: W(c, MAIN) != EMPTY || W(c, SPARE) != NIL ->
			olds[c] = W(c, MAIN);
			W(c, MAIN) = CLOSED
		:: else			/* not in use */
		fi;
		c++;
		if
		:: c < SLOTS -> goto close_all
		:: else -> c = 0
		fi
	}
	/* [PCP_HOOK_DRAIN_CLOSED] */
	atomic {	/* [pcp_fence_all] */
#if FAULT != NO_FENCE && FAULT != FENCE_FIRST
		if
		:: sec[0] = 0; sec[1] = 0
		:: FAULT != DRAIN_UNFENCED -> failed = true
		:: FAULT == DRAIN_UNFENCED
		fi
#else
		skip
#endif
	}
	goto look;

close_one:
#if FAULT == FENCE_FIRST
	sec[c] = 0;
#endif
	atomic {	/* [drain_slot]: exchange(main, CLOSED) */
		olds[c] = W(c, MAIN);
		W(c, MAIN) = CLOSED;
		/* else a drain before this one left the slot closed */
		assert(olds[c] != CLOSED || CLOSED == EMPTY)
	}
	/* [PCP_HOOK_DRAIN_CLOSED] */
	atomic {	/* [pcp_fence_slot] */
#if FAULT != NO_FENCE && FAULT != FENCE_FIRST
		if
		:: if
		   :: sec[c] != 0 -> REACHED(11)
		   :: else
		   fi;
		   sec[c] = 0
		:: FAULT != DRAIN_UNFENCED -> goto put_back
		:: FAULT == DRAIN_UNFENCED
		fi
#else
		skip
#endif
	}

look:	/* [PCP_HOOK_DRAIN_FENCED] */
	atomic {
		if
		:: olds[c] == NIL -> goto next_slot
		:: olds[c] != NIL && failed -> goto put_back
		:: else
		fi;
		/* [take_closed]: did a local commit win? */
#if FAULT != NO_RECHECK
		if
		:: W(c, MAIN) != CLOSED -> REACHED(12); goto close_one
		:: else
		fi
#endif
	}
	atomic {	/* [take_sheaves]: main's old one, the spare, the rcu */
		assert(!real(olds[c]) || sown[olds[c]] == SLOT(c));
		if :: real(olds[c]) -> sown[olds[c]] = DRAINER :: else fi;
		sp = W(c, SPARE)
	}
#if FAULT == OPEN_EARLY
	W(c, MAIN) = EMPTY;
#endif
	atomic {
		assert(W(c, SPARE) == sp);
		assert(!real(sp) || sown[sp] == SLOT(c));
		if :: real(sp) -> REACHED(13); sown[sp] = DRAINER :: else fi;
		W(c, SPARE) = NIL
	}
	/* [PCP_HOOK_DRAIN_TAKEN] */
	atomic {	/* reopen: a release store */
		assert(W(c, SPARE) == NIL);
#if FAULT != OPEN_EARLY
		/* CLOSED is replaced by nobody else */
		assert(W(c, MAIN) == CLOSED);
		W(c, MAIN) = EMPTY
#endif
	}
	atomic {
		drain_release(olds[c]);
		drain_release(sp);
		olds[c] = NIL; sp = 0;
		goto next_slot
	}
put_back:
	atomic {	/* [reopen]: compare-and-swap; the caller gets the error */
#if FAULT == PLAIN_PUT_BACK
		W(c, MAIN) = olds[c];
#else
		if
		:: W(c, MAIN) == CLOSED && FAULT == STAY_CLOSED
		:: W(c, MAIN) == CLOSED && FAULT != STAY_CLOSED ->
			REACHED(14);
			W(c, MAIN) = olds[c]
		:: else -> REACHED(15)	/* a local commit won: it is open */
		fi;
#endif
		olds[c] = NIL
	}
next_slot:
	atomic {
		c++;
		if
		:: c < SLOTS -> goto look
		:: else -> goto again
		fi
	}

at_rest:	/* no thread left: drain both slots and the barn, as destroy does */
	atomic {
		do
		:: c < 2 ->
			olds[0] = W(c, MAIN);
			sp = W(c, SPARE);
			assert(olds[0] != CLOSED || CLOSED == EMPTY);
			assert(!real(olds[0]) || sown[olds[0]] == SLOT(c));
			assert(!real(sp) || sown[sp] == SLOT(c));
			assert(olds[0] != sp);
			if :: real(olds[0]) -> REACHED(16); sown[olds[0]] = DRAINER :: else fi;
			if :: real(sp) -> sown[sp] = DRAINER :: else fi;
			drain_release(olds[0]);
			drain_release(sp);
			c++
		:: else -> break
		od;
		if
		:: full_barn != NIL ->
			sown[full_barn] = DRAINER; drain_release(full_barn)
		:: else
		fi;
		if
		:: empty_barn != NIL ->
			sown[empty_barn] = DRAINER; drain_release(empty_barn)
		:: else
		fi;
		if
		:: part_barn != NIL ->
			sown[part_barn] = DRAINER; drain_release(part_barn)
		:: else
		fi;
		/* nothing lost */
		c = 0;
		do
		:: c < NOBJ -> assert(oown[c] == NOWHERE); c++
		:: else -> break
		od;
		c = FIRST;
		do
		:: c <= LAST -> assert(sown[c] == NOWHERE); c++
		:: else -> break
		od
	}
}

/* A sheaf with some number of objects, in the hands of `who`. */
inline some_sheaf(s, who)
{
	sheaf_new(s, who);
	do
	:: size[s] < CAP ->
		slab_take(n, IN_SHEAF);
		place(s) = n;
		size[s]++
	:: break
	od
}

/* Every start: slot 0 and the barn in any state, slot 1 never used. */
init
{
	byte n;

	atomic {
		W(0, MAIN) = EMPTY;
		W(1, MAIN) = EMPTY;
		if
		:: some_sheaf(W(0, MAIN), SLOT(0))
		:: true
		fi;
		if
		:: some_sheaf(W(0, SPARE), SLOT(0))
		:: true
		fi;
		if
		:: sheaf_new(empty_barn, BARN)
		:: true
		fi;
		run thread(NOOBJ, OPS);
		if
		:: slab_take(n, 2); run thread(n, OPS2)
		:: run thread(NOOBJ, OPS2)
		fi;
		run drainer()
	}
}
