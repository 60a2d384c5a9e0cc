/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees: the word `rcu` of the slots, the hand-over of what is full,
 * grace periods on one worker, and the barrier.  doc/drain.md explains it and
 * maps each step to its C function; names in [brackets] are those functions.
 *
 * Sections are those of slot.pml, with all loads of a section in one step, the
 * look: until the commit, which is a step of its own, only main can change, to
 * CLOSED, or the fence comes, and neither is noticed before the commit.
 *
 * A sheaf is a set of objects.  Who has it is kept in the ghost sown[], which
 * the protocol never reads: a step that moves a sheaf asserts where it was.  An
 * object is freed once and not used again, so an object freed twice, or under a
 * reader, is an assertion at its free; one that is lost is one at the end.
 * `open`, a chain and the worker's queue are pushed to by one compare-and-swap
 * and only ever taken whole; here they are sets, a push is a step, and what the
 * worker took it works on in any order that it may.
 *
 * A grace period waits for a reader that was inside when it began.  The reader
 * enters and finds its object in one step: had it entered earlier, more grace
 * periods would have to wait for it.
 *
 * Every run has to end, at rest: nothing open, nothing ripe, nobody handing
 * anything over, and what is not free is in the sheaf of a slot.
 *
 * Parameters, set by check with -D: CAP, NTHREAD, OPS, TRIES, BARRIERS, SHRINKS,
 * LOCALS, READERS, SLOTS, SHEAVES, NSLAB, FAULT, REACH.
 */

#ifndef CAP
#define CAP	2		/* capacity of a sheaf, 1 or 2 */
#endif
#ifndef NTHREAD
#define NTHREAD	2		/* threads that free */
#endif
#ifndef OPS
#define OPS	1		/* objects each of them frees */
#endif
#ifndef TRIES
#define TRIES	1		/* attempts to hook a new sheaf */
#endif
#ifndef BARRIERS
#define BARRIERS 1
#endif
#ifndef SHRINKS
#define SHRINKS	0		/* drains that are no barrier */
#endif
#ifndef LOCALS
#define LOCALS	0		/* local changes of slot 0's main */
#endif
#ifndef READERS
#define READERS	1		/* 0 or 1 */
#endif
#ifndef SLOTS
#define SLOTS	1		/* 1 or 2 */
#endif
#ifndef SHEAVES
#define SHEAVES	2		/* there can be; 0: only slabs' chains */
#endif
#ifndef NSLAB
#define NSLAB	1		/* slabs the objects are of */
#endif
#ifndef FAULT
#define FAULT	0
#endif
#ifndef REACH
#define REACH	0
#endif

/* Planted faults. */
#define NO_FENCE	1	/* the drain does not fence */
#define NO_RECHECK	2	/* the drain does not look again at main */
#define PUSH_CLOSED	3	/* a push into rcu ignores CLOSED */
#define HOOK_CLOSED	4	/* a change of rcu ignores CLOSED */
#define FLUSH_DRAINED	5	/* a drain frees what it took from rcu */
#define PUSH_UNLOCKED	6	/* a shrink unlocks, then opens what it took */
#define FLIP_FIRST	7	/* the barrier flips, then closes the slots */
#define FLIP_FENCED	8	/* it flips between fence and take */
#define NO_WAIT		9	/* the barrier does not wait for hand-overs */
#define NO_PHASE_CHECK	10	/* a raise does not look again at the phase */
#define RAISE_LATE	11	/* raised after the commit, or after the chain */
#define DROP_EARLY	12	/* dropped before the push to open */
#define SEAL_LATE	13	/* sealed after the grace period */
#define SEAL_ANEW	14	/* a seal where something is ripe starts anew */
#define NO_LOOK		15	/* IDLE, and no look at what is open after it */
#define LOOK_FIRST	16	/* the look comes before IDLE is stored */
#define LINK_LATE	17	/* a slab's chain is taken, then its link read */
#define MARKER		18	/* the barrier's item neither seals nor frees */
#define WAIT_TWICE	19	/* the same, and it waits for both counts */
#define ITEM_IDLES	20	/* the barrier's item stores IDLE as well */
#define MIXED		21	/* the barrier's item is completed in its turn */
#define BUSY		22	/* the worker queues the item whatever is open */

#define marker	(FAULT == MARKER || FAULT == WAIT_TWICE)

/* Barriers' items are completed after all other items of their batch. */
#define may_complete ((batch & ITEM) == 0 || FAULT == MIXED)

/*
 * A situation that must be possible, lest a check pass because it never
 * comes up.  `check` runs the model once for each and wants this to fail.
 */
#define REACHED(n)	assert(REACH != (n))

/* Objects: those the threads free, then those in slot 0 at the start. */
#define NOBJ	(NTHREAD * OPS + CAP)
#define bit_of(x) (1 << (x))

/* Slabs; 0 is the end of a list. */
#define slab_of(o) (1 + (o) % NSLAB)

/* Sheaves, in sets by their bit. */
#define NIL	0
#define full(s)	(CAP == 1 || (objs[s] & (objs[s] - 1)) != 0)

/* Ghost owners of sheaves; a thread is its _pid. */
#define NOWHERE	0		/* not allocated */
#define DRAIN	20
#define OPEN	21
#define RIPE	22
#define SLOT(c)	(23 + (c))

/* A slot.  main is CLOSED or something else, which is all that matters here. */
bit closed[2];
byte rcu[2];
byte sec[2];			/* thread whose section is live, 0: none */

byte objs[SHEAVES + 2];
byte sown[SHEAVES + 2];		/* ghost */

/* The cache. */
byte open;			/* sheaves */
byte open_slabs;		/* first slab */
byte link[NSLAB + 1];		/* next slab in open_slabs */
byte chain[NSLAB + 1];		/* objects */
bit queued;			/* state: 0 IDLE, 1 QUEUED */
bit phase;
byte handing[2];
bit drain_lock;

/* The worker's queue and the batch it works on: the cache's item, barriers'. */
#define ITEM	1
#define BARRIER(b) (2 << (b))
byte queue;
byte done;			/* barriers' items completed */

/* Ghosts: sets of objects. */
byte linked;			/* readers can find them */
byte held;			/* a reader has them */
byte given;			/* pcpool_free_rcu() has returned; kept ... */
byte barriers = BARRIERS;	/* ... while so many have not yet begun */
byte freed;

bit inside;			/* the reader */
byte running;			/* threads, drains, barriers, .. */

inline free_objs(set)
{
	assert(((set) & (freed | held | linked)) == 0);
	freed = freed | (set)
}

inline push_open(s)
{
	assert(sown[s] == DRAIN || sown[s] == _pid);
	sown[s] = OPEN;
	open = open | bit_of(s)
}

#define flip_phase()	atomic { p = phase; phase = 1 - p }

inline push_queue(x)
{
	assert((queue & (x)) == 0);
	queue = queue | (x)
}

proctype thread(byte o)
{
	byte ops = OPS;
	byte tries;
	byte sl;
	byte s, old;
	bit p;
	bit chained;		/* the object goes by its slab's chain */
	bit owns;		/* it has to hand something over */

next_call:
	atomic {
		sl = 0; s = NIL; old = NIL; p = 0; chained = 0; owns = 0;
		tries = 0;
		if
		:: ops == 0 -> goto out
		:: ops > 0 -> ops--
		fi;
		/* the caller makes sure that no new reader finds it */
		linked = linked & ~bit_of(o);
#if SHEAVES == 0
		goto fallback;
#endif
#if SLOTS == 2
		if :: sl = 0 :: sl = 1 fi;
#endif
		/* [pcp_rseq_push_at]: start, look */
		s = rcu[sl];
		if
		:: (closed[sl] && FAULT != PUSH_CLOSED) || s == NIL ->
			s = NIL;
			goto slow
		:: else
		fi;
		assert(sown[s] == SLOT(sl));
		if
		:: full(s) -> s = NIL; goto slow
		:: else -> sec[sl] = _pid
		fi
	}
fast:	/* the section goes on */
	atomic {	/* commit s->size */
		if
		:: sec[sl] != _pid -> s = NIL
		:: sec[sl] == _pid -> sec[sl] = 0; s = NIL
		:: sec[sl] == _pid ->
			sec[sl] = 0;
			assert(sown[s] == SLOT(sl));
			if
			:: closed[sl] -> REACHED(1)
			:: else
			fi;
			objs[s] = objs[s] | bit_of(o);
			goto given_up
		fi
	}

slow:	/* [defer_to_slot] */
	atomic {
		if
		:: tries == TRIES -> goto fallback
		:: tries < TRIES -> tries++
		fi;
#if SLOTS == 2
		if :: sl = 0 :: sl = 1 fi;
#endif
		old = rcu[sl];		/* a pointer to compare */
		s = 1;
		do
		:: s <= SHEAVES && sown[s] != NOWHERE -> s++
		:: else -> break
		od;
		if
		:: true -> goto fallback	/* no memory */
		:: s <= SHEAVES -> sown[s] = _pid; objs[s] = bit_of(o)
		fi
#if FAULT == RAISE_LATE
		; goto hook
#endif
	}

raise:	/* [pcp_defer_begin] */
	p = phase;
	handing[p]++;
	atomic {
		if
		:: phase != p && FAULT != NO_PHASE_CHECK ->
			REACHED(2); handing[p]--; goto raise
		:: else
		fi;
		if
		:: chained -> goto to_chain
		:: else
		fi
#if FAULT == RAISE_LATE
		; goto hand_over
#endif
	}

hook:	/* [hook_rcu], [pcp_slot_commit]: start, look */
	atomic {
		if
		:: (closed[sl] && FAULT != HOOK_CLOSED) || rcu[sl] != old ->
			goto refused
		:: else -> sec[sl] = _pid
		fi
	}
	atomic {	/* commit */
		if
		:: sec[sl] != _pid -> goto refused
		:: sec[sl] == _pid ->	/* a signal, or it is elsewhere now */
			sec[sl] = 0; goto refused
		:: sec[sl] == _pid ->
			sec[sl] = 0;
			assert(old == NIL || sown[old] == SLOT(sl));
			assert(rcu[sl] == old);
			if
			:: closed[sl] -> REACHED(3)
			:: else
			fi;
			rcu[sl] = s;
			sown[s] = SLOT(sl);
			s = NIL;
			owns = (old != NIL);
			if
			:: old != NIL -> sown[old] = _pid
			:: else
			fi
		fi
	}
#if FAULT == RAISE_LATE
	goto raise;
#endif

hand_over:	/* [pcp_defer_sheaf] */
#if FAULT == DROP_EARLY
	handing[p]--;
#endif
	atomic {
		if
		:: owns -> push_open(old); old = NIL; goto make_sure
		:: else -> goto drop
		fi
	}

refused:
	atomic {
		assert(sown[s] == _pid);
		sown[s] = NOWHERE; objs[s] = 0; s = NIL; old = NIL;
#if FAULT != RAISE_LATE
		handing[p]--;
#endif
		p = 0;
		goto slow
	}

fallback:	/* [pcp_defer_object]: part of the step before */
	atomic {
		s = NIL; old = NIL; chained = 1
#if FAULT != RAISE_LATE
		; goto raise
#endif
	}

to_chain:	/* [pcp_slab_defer] */
	atomic {
		s = slab_of(o);
		owns = (chain[s] == 0);
		assert((chain[s] & bit_of(o)) == 0);
		chain[s] = chain[s] | bit_of(o);
		if
		:: owns
		:: else ->
			REACHED(4);
			s = 0;
#if FAULT == DROP_EARLY
			handing[p]--;
#endif
#if FAULT == RAISE_LATE
			goto given_up
#else
			goto drop
#endif
		fi
	}
#if FAULT == RAISE_LATE
	p = phase;
	handing[p]++;
#endif
#if FAULT == DROP_EARLY
	handing[p]--;
#endif
	atomic {	/* publish */
		link[s] = open_slabs;
		open_slabs = s;
		s = 0
	}

make_sure:	/* [pcp_defer_kick]: exchange(state, QUEUED) */
	atomic {
		if
		:: queued -> goto drop
		:: else -> queued = 1
		fi
	}
	atomic { push_queue(ITEM); goto drop };

drop:	/* [pcp_defer_end]: part of the step before, as it only ends waits */
	atomic {
#if FAULT != DROP_EARLY
		handing[p]--;
#endif
		goto given_up
	}

given_up:	/* the call returns: part of the step before */
	atomic {
		if
		:: barriers > 0 -> given = given | bit_of(o)
		:: else
		fi;
		o = o + NTHREAD;
		goto next_call
	}

out:
	running--
}

/* A local change of main that is under way, as alloc and free make them. */
proctype changer()
{
	byte n = LOCALS;

	do
	:: n > 0 ->
		atomic {
			n--;
			if
			:: closed[0] -> goto next
			:: else -> sec[0] = _pid
			fi
		}
		atomic {
			if
			:: sec[0] != _pid
			:: sec[0] == _pid ->
				sec[0] = 0;
				closed[0] = 0
			fi
		}
next:		skip
	:: else -> break
	od;
	running--
}

/* Any reader that finds an object before it is given to pcpool_free_rcu(). */
proctype reader()
{
	byte x;

	atomic {
		if
		:: inside	/* since before the start */
		:: !inside ->
			inside = 1;
			do
			:: x < NOBJ -> x++
			:: (linked & bit_of(x)) != 0 -> break
			:: x == NOBJ -> break
			od;
			if
			:: x < NOBJ -> held = bit_of(x); x = 0
			:: else -> x = 0
			fi
		fi
	}
	atomic {
		inside = 0;
		held = 0;
		running--
	}
}

/* [pcp_stock_drain], or [pcpool_rcu_barrier] number b. */
proctype drain(bit barrier; byte b)
{
	byte c;
	byte taken;		/* sheaves */
	byte due;		/* ghost: objects the barrier has to cover */
	bit alone;		/* ghost: nobody else uses the cache */
	bit p;

	atomic {
		drain_lock == 0 ->
		drain_lock = 1;
		if
		:: barrier ->
			due = given & ~freed;
			alone = (running == 1);
			barriers--;
			if
			:: barriers == 0 -> given = 0
			:: else
			fi
		:: else
		fi
#if FAULT == FLIP_FIRST
		; flip_phase()
#endif
	}
close:
	atomic {
		assert(!closed[c]);
		closed[c] = 1;
		c++;
		if
		:: c < SLOTS -> goto close
		:: else -> c = 0
		fi
	}
#if FAULT != NO_FENCE
	atomic {
		if
		:: sec[0] != 0 -> REACHED(5)
		:: else
		fi;
		sec[0] = 0; sec[1] = 0
	}
#endif
#if FAULT == FLIP_FENCED
	flip_phase();
#endif
take:	/* [take_closed], and reopen: all sections refuse between the two */
	atomic {
		if
		:: !closed[c] && FAULT != NO_RECHECK ->
			REACHED(6);
			closed[c] = 1;
			goto fence
		:: else
		fi;
		if
		:: rcu[c] != NIL ->
			assert(sown[rcu[c]] == SLOT(c));
			sown[rcu[c]] = DRAIN;
			taken = taken | bit_of(rcu[c]);
			rcu[c] = NIL
		:: else
		fi;
		assert(closed[c]);
		closed[c] = 0;
		c++;
		if
		:: c < SLOTS -> goto take
		:: else -> c = 0
		fi;
		if
		:: taken != 0 -> goto keep
		:: else -> goto kept
		fi
	}
fence:
	sec[c] = 0;
	goto take;

keep:	/* [pcp_defer_sheaf] of what was taken: it waits like all else */
#if FAULT == PUSH_UNLOCKED
	if
	:: !barrier -> drain_lock = 0
	:: else
	fi;
#endif
	atomic {
		c = 1;
		do
		:: c <= SHEAVES && !(taken & bit_of(c)) -> c++
		:: c <= SHEAVES && (taken & bit_of(c)) ->
			if
			:: FAULT == FLUSH_DRAINED ->
				free_objs(objs[c]);
				objs[c] = 0; sown[c] = NOWHERE
			:: else -> push_open(c)
			fi;
			c++
		:: else -> c = 0; break
		od;
		taken = 0
	}
	atomic {
		if
		:: queued -> goto kept
		:: else -> queued = 1
		fi
	}
	push_queue(ITEM);

kept:
	atomic {
		if
		:: !barrier -> goto unlock
		:: else
		fi;
#if FAULT == FLIP_FIRST || FAULT == FLIP_FENCED
		goto wait
#else
		goto flip
#endif
	}
flip:	/* [pcp_defer_flip]: whoever took a sheaf before was raised before */
	atomic {
		flip_phase();
		if
		:: handing[p] != 0 -> REACHED(7)
		:: else
		fi
	}
wait:	/* [pcp_defer_await] */
	atomic {
#if FAULT != NO_WAIT
		handing[p] == 0 ->
#endif
		p = 0
#if FAULT != WAIT_TWICE
		; goto unlock
#endif
	}
#if FAULT == WAIT_TWICE
	flip_phase();
	atomic { handing[p] == 0 -> p = 0; goto unlock };
#endif
unlock:	/* part of the step before */
	atomic {
		if
		:: FAULT == PUSH_UNLOCKED && !barrier
		:: else -> drain_lock = 0
		fi;
		if
		:: !barrier -> goto out
		:: else
		fi
	}
	push_queue(BARRIER(b));		/* [pcp_grace_barrier] */
	atomic {
		(done & BARRIER(b)) != 0 ->
		assert((due & ~freed) == 0);
		/* destroy frees the cache next: the worker is done with it */
		assert(!alone || !queued);
		due = 0; alone = 0;
		goto out
	}
out:
	running--
}

/* [run_batch], on the library's thread or a waiting one, never two. */
proctype worker()
{
	byte batch, todo;
	byte ripe;		/* sheaves */
	byte ripe_objs;		/* from slabs' chains */
	byte s, nx;
	bit seen, again;

next_batch:	/* [take_queue] */
	atomic {
		if
		:: queue != 0 ->
			batch = queue; queue = 0;
			todo = (marker -> batch & ITEM : batch);
			if
			:: (batch & ITEM) == 0 && open != 0 -> REACHED(8)
			:: else
			fi
		:: queue == 0 && running == 0 -> goto at_rest
		fi;
#if FAULT == SEAL_LATE
		goto grace;
#endif
	}

seal:	/* [seal], once for each item, and all items are of one cache */
	atomic {
		if
		:: todo == 0 -> goto sealed
		:: else -> todo = todo & (todo - 1)
		fi;
		/* what was open when the batch was taken is ripe by now */
		if
		:: ripe == 0 && ripe_objs == 0
		:: else ->
#if FAULT == SEAL_ANEW
			ripe = 0; ripe_objs = 0
#else
			goto seal
#endif
		fi;
		s = 1;
		do
		:: s <= SHEAVES && (open & bit_of(s)) ->
			assert(sown[s] == OPEN); sown[s] = RIPE; s++
		:: s <= SHEAVES && !(open & bit_of(s)) -> s++
		:: else -> s = 0; break
		od;
		ripe = open; open = 0
	}
	atomic { s = open_slabs; open_slabs = 0 };
seal_slab:
	atomic {
		if
		:: s == 0 -> goto seal
		:: else
		fi;
		/*
		 * The link is read, then the chain is taken: one step, since
		 * nobody writes the link while the chain is not empty.
		 */
		nx = link[s];
		assert(chain[s] != 0);
		ripe_objs = ripe_objs | chain[s];
		chain[s] = 0;
#if FAULT != LINK_LATE
		s = nx; nx = 0;
		goto seal_slab
#endif
	}
#if FAULT == LINK_LATE
	atomic { s = link[s]; nx = 0; goto seal_slab };
#endif
sealed:
#if FAULT == SEAL_LATE
	goto after_grace;
#endif
grace:	/* [wait_for_readers] */
#if READERS
	seen = inside;
	atomic { !seen || !inside -> seen = 0 };
#endif
#if FAULT == SEAL_LATE
	goto seal;
#endif

after_grace:
	atomic {
		if
		:: (batch & ITEM) != 0 -> todo = ITEM
		:: (batch & BARRIER(0)) != 0 && may_complete -> todo = BARRIER(0)
		:: (batch & BARRIER(1)) != 0 && may_complete -> todo = BARRIER(1)
		fi;
		batch = batch & ~todo;
		/* [free_ripe_sheaves], [free_ripe_slabs] */
		if
		:: todo != ITEM && marker -> goto ripened
		:: ripe_objs != 0 && !(todo != ITEM && marker) ->
			free_objs(ripe_objs); ripe_objs = 0
		:: else
		fi;
		s = 1;
		do
		:: s <= SHEAVES && (ripe & bit_of(s)) ->
			assert(sown[s] == RIPE);
			free_objs(objs[s]);
			objs[s] = 0; sown[s] = NOWHERE; s++
		:: s <= SHEAVES && !(ripe & bit_of(s)) -> s++
		:: else -> s = 0; ripe = 0; goto ripened
		od
	}
ripened:	/* [ripen] */
	atomic {
#if FAULT != ITEM_IDLES
		if
		:: todo != ITEM -> goto complete
		:: else
		fi;
#endif
#if FAULT == LOOK_FIRST
		again = (open != 0 || open_slabs != 0)
	}
	atomic {
#endif
		queued = 0
	}
#if FAULT != NO_LOOK
	atomic {
#if FAULT != LOOK_FIRST
		again = (open != 0 || open_slabs != 0 || FAULT == BUSY);
#endif
		if
		:: !again -> goto complete
		:: else -> REACHED(9); again = 0
		fi
	}
	atomic {
		if
		:: queued -> REACHED(10); goto complete
		:: else -> queued = 1; push_queue(ITEM); goto complete
		fi
	}
#endif

complete:	/* [barrier_fn]: part of the step before */
	atomic {
		if
		:: todo != ITEM -> done = done | todo
		:: else
		fi;
		todo = 0;
		if
		:: batch == 0 -> goto next_batch
		:: else -> goto after_grace
		fi
	}

at_rest:	/* what slots hold is left, which destroy empties */
	atomic {
		assert(!queued && open == 0 && open_slabs == 0);
		assert(handing[0] == 0 && handing[1] == 0);
		assert(!closed[0] && !closed[1]);
		s = 0;
		do
		:: s < 2 ->
			if
			:: rcu[s] != NIL ->
				assert(sown[rcu[s]] == SLOT(s));
				free_objs(objs[rcu[s]]);
				sown[rcu[s]] = NOWHERE
			:: else
			fi;
			s++
		:: else -> break
		od;
		assert(freed == bit_of(NOBJ) - 1);
		s = 1;
		do
		:: s <= SHEAVES -> assert(sown[s] == NOWHERE); s++
		:: else -> break
		od
	}
}

/* Slot 0 has no sheaf, or one with some objects that a reader may have. */
init
{
	byte n;

	atomic {
		linked = bit_of(NTHREAD * OPS) - 1;
		if
		:: SHEAVES > 0 ->
			rcu[0] = 1;
			sown[1] = SLOT(0);
			objs[1] = bit_of(NTHREAD * OPS);
			if
			:: CAP == 2 -> objs[1] = objs[1] | bit_of(NOBJ - 1)
			:: true
			fi
		:: true
		fi;
		given = objs[1];
		freed = (bit_of(NOBJ) - 1) & ~(linked | given);
		if
		:: READERS && given != 0 ->
			inside = 1; held = given
		:: true
		fi;
		running = NTHREAD + BARRIERS + SHRINKS + (LOCALS > 0) + READERS;
		if
		:: LOCALS > 0 -> run changer()
		:: else
		fi;
		if
		:: READERS > 0 -> run reader()
		:: else
		fi;
		do
		:: n < BARRIERS -> run drain(1, n); n++
		:: else -> n = 0; break
		od;
		do
		:: n < SHRINKS -> run drain(0, 0); n++
		:: else -> n = 0; break
		od;
		do
		:: n < NTHREAD -> run thread(n); n++
		:: else -> n = 0; break
		od;
		run worker()
	}
}
