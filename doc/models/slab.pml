/* SPDX-License-Identifier: MIT */
/*
 * One slab: its 64-bit word {head, inuse, tag}, the node's partial list under
 * list_lock, the park stack, and death.  doc/drain.md maps the steps to C.
 *
 * Threads take objects (a refill takes the slab off the list, takes some
 * objects by one compare-and-swap, puts the slab back) and give them back as a
 * chain by one compare-and-swap.  A free that would empty a partial slab takes
 * list_lock before its compare-and-swap; the reason is the planted fault
 * LATE_LOCK.  "Enough partial slabs already" is a free choice each time it is
 * asked, so both rows of each table entry are covered.
 *
 * The memory is gone once `dead` is set: each step that touches the slab
 * asserts it is not.  A thread that holds an object, has the slab off the list
 * (`refill`), or holds list_lock and found it on the list may touch it.
 *
 * As the list is used, one thread at a time takes from a slab, and the word's
 * tag is not yet needed.  WORD leaves the list, the lock and death out and lets
 * everybody take at once: the word has to stand that alone, so that who may
 * take when stays a matter of node/ only.
 *
 * Ghosts: oown[] (who has an object), dead.
 * Parameters: NOBJ, OPS, NTHREAD, PARK, WORD, FAULT, REACH.
 */

#ifndef NOBJ
#define NOBJ	2
#endif
#ifndef OPS
#define OPS	2		/* takes and gives of each thread */
#endif
#ifndef NTHREAD
#define NTHREAD	3
#endif
#ifndef PARK
#define PARK	0		/* park where list_lock is contended */
#endif
#ifndef WORD
#define WORD	0
#endif
#ifndef FAULT
#define FAULT	0
#endif
#ifndef REACH
#define REACH	0
#endif

#define LATE_LOCK	1	/* list_lock after the CAS that empties */
#define LATE_REREAD	2	/* the same, and it re-reads the word then */
#define UNTAGGED	3	/* the CAS compares head and inuse alone */
#define FULL_PUT_BACK	4	/* a refill puts back what it left full, too */
#define ANYONE_LINKS	5	/* a free that saw no "full" links, too */
#define FLAG_AFTER_CAS	6	/* on_list is read after the CAS, not before */
#define TOUCH_PARKED	7	/* a free looks at the slab it has parked */
#define JUDGE_UNLISTED	8	/* a free retires what it emptied off the list */

#define REACHED(n)	assert(REACH != (n))

#define NONE	0		/* end of the free list */
#define OUT	(NOBJ + 1)	/* next[] of an object that is out */
#define IN_SLAB	0		/* ghost owner of a free object */

/* The word. */
byte head, inuse, tag;
byte next[NOBJ + 1];

bit on_list;			/* changes under list_lock only */
bit parked;
byte list_lock;			/* owner's _pid */
bit queued;			/* queue for death, under a leaf lock */
bit dead;			/* ghost: memory released */
byte oown[NOBJ + 1];		/* ghost */
byte running = NTHREAD;

#define alive()		assert(!dead)
#define lock()		atomic { list_lock == 0 -> list_lock = _pid }
#define unlock()	list_lock = 0

inline link_slab()
{
	alive();
	assert(list_lock == _pid && !on_list && !queued);
	on_list = 1
}

inline unlink_slab()
{
	alive();
	assert(list_lock == _pid && on_list);
	on_list = 0
}

inline queue_for_death()
{
	alive();
	assert(inuse == 0 && !on_list && !parked && !queued);
	queued = 1
}

/* A compare-and-swap of the word, in an atomic step. */
#if FAULT == UNTAGGED
#define same_word()	(head == h && inuse == u)
#else
#define same_word()	(head == h && inuse == u && tag == t)
#endif

proctype thread(byte mine)	/* objects held, a bit each */
{
	byte ops = OPS;
	byte h, u, t;		/* the word as read */
	byte first, last, nx;	/* walk, chain */
	byte want, n;
	byte taken;
	bit locked, listed;

next_call:
	atomic {
		h = 0; u = 0; t = 0; first = 0; last = 0; nx = 0; want = 0;
		n = 0;
		assert(list_lock != _pid);
		if
		:: ops == 0 && mine == 0 -> goto out
		:: ops > 0 -> ops--; goto take
		:: mine != 0 ->
			if :: ops > 0 -> ops-- :: else fi;
			goto give
		fi
	}

take:	/* [pcp_node_take]: unpark, take a slab off the list */
#if WORD
	goto take_some;
#endif
	lock();
	/* [PCP_HOOK_LIST_LOCKED] */
	atomic {
		if
		:: parked ->
			REACHED(1);
			alive();
			parked = 0;
			if
			:: inuse == 0 -> REACHED(2); queue_for_death()
			:: true -> link_slab()
			fi
		:: else
		fi
	}
	atomic {
		if
		:: on_list ->
			unlink_slab();
			assert(head != NONE)
		:: else ->
			unlock();
			goto grow
		fi
	}
	unlock();
	if
	:: goto take_some
	:: goto put_back	/* had enough already: not used */
	fi;

grow:	/* [pcp_node_take_waiting]; else there is none here */
	atomic {
		if
		:: queued ->
			REACHED(3);
			alive();
			assert(inuse == 0 && !on_list && !parked);
			queued = 0
		:: else -> goto next_call
		fi
	}

take_some:	/* [pcp_slab_take]: read the word, walk, CAS */
	atomic {
		alive();
		h = head; u = inuse; t = tag;
#if WORD
		if
		:: h == NONE -> goto next_call
		:: else
		fi;
#endif
		assert(h != NONE);
		if
		:: want = 1
		:: NOBJ - u > 1 -> want = NOBJ - u
		fi;
		n = 0;
		nx = h
	}
walk:
	atomic {
		/* bounded by the count; an index of nonsense: start again */
		if
		:: n < want && nx != NONE && nx <= NOBJ ->
			alive();
			last = nx;
			nx = next[nx];
			n++;
			goto walk
		:: n < want && (nx == NONE || nx > NOBJ) ->
			REACHED(4);
			goto take_some
		:: n == want
		fi
	}
	/* [PCP_HOOK_SLAB_TAKE] */
	atomic {
		alive();
		if
		:: same_word() ->
			/* the chain h .. last is this thread's now */
			first = h;
			n = 0;
			do
			:: n < want ->
				assert(first >= 1 && first <= NOBJ);
				assert(oown[first] == IN_SLAB);
				oown[first] = _pid;
				taken = taken | (1 << first);
				first = next[first];
				n++
			:: else -> break
			od;
			assert(first == nx);	/* what it walked was so */
			first = 0; last = 0;
			head = nx; inuse = u + want; tag++
		:: else ->
			REACHED(5);
			goto take_some
		fi
	}
	atomic {	/* its objects keep the slab alive */
		alive();
		n = 1;
		do
		:: n <= NOBJ && (taken & (1 << n)) -> next[n] = OUT; n++
		:: n <= NOBJ && !(taken & (1 << n)) -> n++
		:: else -> break
		od;
		mine = mine | taken;
		taken = 0;
		n = 0;
		if
		:: WORD -> goto next_call
		:: !WORD && nx == NONE && FAULT != FULL_PUT_BACK ->
			goto next_call		/* left it full: hands off */
		:: else
		fi
	}

put_back:	/* [put_back]: partial, or empty by now, and off the list */
	lock();
	atomic {
		alive();
		if
		:: inuse == 0 -> REACHED(6); queue_for_death()
		:: true -> link_slab()
		fi
	}
	unlock();
	goto next_call;

give:	/* [pcp_node_give]: one object or more, as a chain */
	atomic {
		last = 1;
		do
		:: !(mine & (1 << last)) -> last++
		:: else -> break
		od;
		first = last;
		want = 1;
		assert(next[last] == OUT);
		do
		:: last < NOBJ && (mine & (1 << (last + 1))) ->
			next[last] = last + 1;
			last++;
			assert(next[last] == OUT);
			want++
		:: break
		od;
		n = first;
		do
		:: n <= last -> mine = mine & ~(1 << n); n++
		:: else -> break
		od;
		n = 0
	}
give_again:
	atomic {
		alive();
		h = head; u = inuse; t = tag;
		assert(u >= want);
		if
		:: !WORD && u == want && h != NONE && !locked &&
		   FAULT != LATE_LOCK && FAULT != LATE_REREAD ->
			goto give_lock
		:: else
		fi;
		/*
		 * Stable from here on, since list_lock is held.  After the
		 * CAS it is too late to look: a refill that has the slab off
		 * the list may take everything, and whoever then frees it all
		 * at once queues it for death without a lock.
		 */
		if
		:: locked -> listed = on_list
		:: else
		fi
	}
	atomic { alive(); next[last] = h };	/* [pcp_slab_give] */
	/* [PCP_HOOK_SLAB_GIVE] */
	atomic {
		alive();
		if
		:: same_word() ->
			n = first;
			do
			:: n <= last ->
				assert(oown[n] == _pid);
				oown[n] = IN_SLAB;
				n++
			:: else -> break
			od;
			n = 0;
			head = first; inuse = u - want; tag++;
			want = inuse;
			first = 0; last = 0
		:: else ->
			REACHED(7);
			goto give_again
		fi
	}
	/* from here on `want` is what its CAS left in use */
	if
#if WORD
	:: goto next_call
#else
	:: locked -> goto given_locked
	:: !locked && h == NONE -> goto given_full
#if FAULT == LATE_LOCK || FAULT == LATE_REREAD
	:: !locked && h != NONE && want == 0 -> goto given_late
#endif
#if FAULT == ANYONE_LINKS
	:: !locked && h != NONE && want != 0 -> goto given_full
#endif
	:: else -> goto next_call	/* partial to partial: hands off */
#endif
	fi;

give_lock:
	lock();
	locked = 1;
	goto give_again;

given_locked:
	atomic {
#if FAULT == FLAG_AFTER_CAS
		if
		:: h != NONE && want == 0 -> alive(); listed = on_list
		:: else
		fi;
#endif
		if
		:: h == NONE -> REACHED(8)	/* was full after all */
		:: h != NONE && want == 0 && listed ->
			assert(on_list && inuse == 0);
			if
			:: REACHED(9); unlink_slab(); queue_for_death()
			:: true			/* too few: stays */
			fi
		:: h != NONE && want == 0 && !listed ->
			REACHED(10)
#if FAULT == JUDGE_UNLISTED
			; queue_for_death()
#endif
		:: h != NONE && want != 0 -> REACHED(11)
		fi;
		listed = 0
	}
	unlock();
	locked = 0;
	if
	:: h != NONE -> goto next_call
	:: else
	fi;

given_full:	/* [link_or_retire]: only the CAS that saw "full" is here */
	atomic {
		if
		:: want == 0 -> queue_for_death(); goto next_call
		:: true
		fi
	}
#if !PARK
	goto put_back;
#else
	atomic {
		alive();
		if
		:: list_lock == 0 -> list_lock = _pid
		:: else ->
			REACHED(12);
			assert(!on_list && !parked && !queued);
			parked = 1;	/* list_lock is contended */
#if FAULT != TOUCH_PARKED
			goto next_call
#endif
		fi
	}
#if FAULT == TOUCH_PARKED
	atomic {
		if
		:: list_lock != _pid -> alive(); goto next_call
		:: else
		fi
	}
#endif
	link_slab();
	unlock();
	goto next_call;
#endif

given_late:	/* the planted fault: list_lock only now */
	lock();
	atomic {
		alive();
#if FAULT == LATE_REREAD
		if
		:: inuse == 0 && on_list -> unlink_slab(); queue_for_death()
		:: true
		fi
#else
		if
		:: on_list -> unlink_slab()
		:: else
		fi;
		assert(inuse == 0);	/* else it kills a live slab */
		queue_for_death()
#endif
	}
	unlock();
	goto next_call;

out:
	running--
}

/* [pcp_node_trim], [pcp_slabs_kill]: takes from the queue whole, runs destructors, releases memory. */
proctype reaper()
{
end:	do
	:: atomic { queued ->
		REACHED(13);
		assert(!dead && inuse == 0 && !on_list && !parked);
		queued = 0;
		dead = 1
	   }
	:: atomic { running == 0 && !queued -> break }
	od;
	/* at rest: it can be found again, and nothing was lost */
	atomic {
		assert(WORD || dead || on_list || parked);
		assert(inuse == 0);
		assert(oown[1] == IN_SLAB && oown[NOBJ] == IN_SLAB);
		assert(list_lock == 0)
	}
}

/* Any state a slab of NOBJ objects starts from, all held by the first thread. */
init
{
	byte n;
	byte held;

	atomic {
		/* the first `inuse` objects are out, the rest free, in order */
		if
		:: inuse = 0
		:: inuse = 1
		:: inuse = NOBJ
		fi;
		n = 1;
		do
		:: n <= inuse ->
			oown[n] = 1;
			held = held | (1 << n);
			next[n] = OUT;
			n++
		:: n > inuse && n <= NOBJ ->
			if
			:: head == NONE -> head = n
			:: else
			fi;
			if
			:: n < NOBJ -> next[n] = n + 1
			:: else -> next[n] = NONE
			fi;
			n++
		:: n > NOBJ -> break
		od;
		on_list = (inuse < NOBJ);
		run thread(held);
		held = 0;
		n = 1;
		do
		:: n < NTHREAD -> run thread(0); n++
		:: else -> break
		od;
		n = 0;
		run reaper()
	}
}
