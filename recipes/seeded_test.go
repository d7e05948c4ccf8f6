package recipes

import (
	"slices"

	"github.com/zkgrant/zkgrant/events"
)

// A mutant is the machine with one repair taken away. It lives around Step, so
// nothing in the machine itself knows of it.
type mutant struct {
	name string
	step stepFunc // nil: the bug is in the shell
	cfg  config
	want violation
}

// alter changes an input on its way in.
func alter(change func(m Machine, in Input) Input) stepFunc {
	return func(m Machine, in Input) (Machine, []Effect) { return m.Step(change(m, in)) }
}

// instead takes over where it says so.
func instead(take func(m Machine, in Input) (Machine, []Effect, bool)) stepFunc {
	return func(m Machine, in Input) (Machine, []Effect) {
		if next, effects, ok := take(m, in); ok {
			return next, effects
		}
		return m.Step(in)
	}
}

// after changes what comes out.
func after(change func(m, next Machine, in Input, effects []Effect) (Machine, []Effect)) stepFunc {
	return func(m Machine, in Input) (Machine, []Effect) {
		next, effects := m.Step(in)
		return change(m, next, in, effects)
	}
}

// granted is what a machine does that believes it may enter.
func granted(m Machine) (Machine, []Effect) {
	m.state = Held
	return m, []Effect{Grant{Node: m.own.Name.Text, Token: m.own.Token}}
}

// without removes the effects of one type.
func without[E Effect](effects []Effect) []Effect {
	var rest []Effect
	for _, e := range effects {
		if _, ok := e.(E); !ok {
			rest = append(rest, e)
		}
	}
	return rest
}

// grantOnListing enters where the machine would claim.
func grantOnListing(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
	if _, ok := in.(Listed); ok && next.state == Claiming {
		return granted(next)
	}
	return next, effects
}

// ownNodeIgnored believes a listing that does not have the own node in it.
func ownNodeIgnored(m Machine, in Input) Input {
	l, ok := in.(Listed)
	if !ok || m.state != Listing || l.Own != (Own{}) {
		return in
	}
	l.Own = Own{Name: m.own.Name, Owner: m.session, Token: tokenBase + m.own.Name.Seq}
	return l
}

// currentEpoch takes every answer for one of the current session.
func currentEpoch(m Machine, in Input) Input {
	switch in := in.(type) {
	case Created:
		in.Epoch = m.epoch
		return in
	case Listed:
		in.Epoch = m.epoch
		return in
	case Claimed:
		in.Epoch = m.epoch
		return in
	case Deleted:
		in.Epoch = m.epoch
		return in
	case Refused:
		in.Epoch = m.epoch
		return in
	case Unknown:
		in.Epoch = m.epoch
		return in
	default:
		return in
	}
}

// anybodysNode takes a node that is found for the current session's.
func anybodysNode(m Machine, in Input) Input {
	l, ok := in.(Listed)
	if !ok || l.Own == (Own{}) {
		return in
	}
	l.Own.Owner = m.session
	return l
}

func oldest(l Listed) events.Name { return slices.MinFunc(l.Queue, events.CompareNames) }

// mutants returns the seeded bugs. Those that are to be found by their two
// holders are explored without asking for the proof of a grant, which would be
// missed sooner.
func mutants() []mutant {
	plain := func(left budget) config { return config{clients: 3, left: left, options: options{plain: true}} }
	three := func(left budget) config { return config{clients: 3, left: left} }
	return []mutant{
		{"grants on the listing, without a claim", after(grantOnListing), three(budget{}), unproven},
		{"the same, asked for two holders only", after(grantOnListing), plain(budget{expire: 1}), twoHolders},
		{"believes a claim whose lease has run out since", alter(func(_ Machine, in Input) Input {
			if c, ok := in.(Claimed); ok {
				c.Fresh = true
				return c
			}
			return in
		}), plain(budget{expire: 1}), twoHolders},
		{"takes a claim of unknown outcome for granted", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if u, ok := in.(Unknown); ok && u.Op == OpClaim && u.Epoch == m.epoch && m.state == Claiming {
				next, effects := granted(m)
				return next, effects, true
			}
			return m, nil, false
		}), plain(budget{cut: 1, expire: 1}), twoHolders},
		{"grants when the node ahead goes", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if g, ok := in.(Gone); ok && m.state == Waiting && g.Node == m.older[0] {
				next, effects := granted(m)
				return next, effects, true
			}
			return m, nil, false
		}), plain(budget{withdraw: 1}), twoHolders},
		{"claims without listing when the node ahead goes", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if g, ok := in.(Gone); ok && m.state == Waiting && g.Node == m.older[0] {
				m.state = Claiming
				return m, []Effect{Claim{Epoch: m.epoch, Node: m.own.Name.Text}}, true
			}
			return m, nil, false
		}), plain(budget{withdraw: 1}), twoHolders},
		{"ignores that its own node is gone, and does not claim", func(m Machine, in Input) (Machine, []Effect) {
			in = ownNodeIgnored(m, in)
			next, effects := m.Step(in)
			return grantOnListing(m, next, in, effects)
		}, plain(budget{remove: 1}), twoHolders},
		{"takes a claim that found no node for granted", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if r, ok := in.(Refused); ok && r.Op == OpClaim && m.state == Claiming {
				next, effects := granted(m)
				return next, effects, true
			}
			return m, nil, false
		}), three(budget{remove: 1}), unproven},
		{"is not told when its lease runs out", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(LeaseRanOut)
			return m, nil, ok
		}), plain(budget{expire: 1}), twoHolders},
		{"does not notice that the node it holds is gone", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Gone)
			return m, nil, ok && m.state == Held
		}), config{clients: 3, left: budget{remove: 1}, options: options{ownWatch: true}}, untold},
		{"watches the oldest but claims as if it were the nearest", func(m Machine, in Input) (Machine, []Effect) {
			l, ok := in.(Listed)
			next, effects := m.Step(in)
			if ok && next.state == Waiting {
				next.older = neighbours{oldest(l).Text}
				return next, []Effect{Watch{Epoch: m.epoch, Node: next.older[0]}}
			}
			if g, ok := in.(Gone); ok && m.state == Waiting && g.Node == m.older[0] {
				next.state = Claiming
				return next, []Effect{Claim{Epoch: m.epoch, Node: m.own.Name.Text}}
			}
			return next, effects
		}, plain(budget{}), twoHolders},
		{"watches itself", after(func(m, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			if next.state == Waiting && m.state != Waiting {
				return next, []Effect{Watch{Epoch: m.epoch, Node: next.own.Name.Text}}
			}
			return next, effects
		}), three(budget{}), stuck},
		{"watches what is gone once more", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			g, ok := in.(Gone)
			return m, []Effect{Watch{Epoch: m.epoch, Node: m.older[0]}}, ok && m.state == Waiting && g.Node == m.older[0]
		}), config{clients: 2}, noWayOut},
		{"creates again without looking for the first", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if u, ok := in.(Unknown); ok && u.Op == OpCreate && u.Epoch == m.epoch && m.state == Creating && m.why == 0 {
				next := m
				effects := next.begin()
				return next, effects, true
			}
			return m, nil, false
		}), three(budget{cut: 1}), stuck},
		{"looks for the first at a replica that lags", after(func(_, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			for i, e := range effects {
				if l, ok := e.(List); ok {
					l.Barrier = false
					effects[i] = l
				}
			}
			return next, effects
		}), three(budget{cut: 1}), stuck},
		{"forgets a create under way when withdrawn", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if w, ok := in.(Withdrawn); ok && m.state == Creating {
				m.why = w.Why
				next := m
				effects := next.over()
				return next, without[Discard](effects), true
			}
			return m, nil, false
		}), three(budget{withdraw: 1, cut: 1}), leftBehind},
		{"forgets that it was withdrawn while it creates", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if _, ok := in.(Created); ok {
				m.why = 0
				next, effects := m.Step(in)
				return next, effects, true
			}
			return m, nil, false
		}), three(budget{withdraw: 1}), outOfOrder},
		{"believes answers of an earlier session", alter(currentEpoch), plain(budget{expire: 1}), twoHolders},
		{"leaves alone what an earlier session's create made", after(func(_, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			return next, without[Discard](effects)
		}), config{clients: 3, left: budget{expire: 1}, options: options{ghost: true, eager: true}}, stuck},
		{"does not list again after a reconnect", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if _, ok := in.(Reconnected); ok && m.state == Waiting {
				m.up = true
				return m, nil, true
			}
			return m, nil, false
		}), three(budget{cut: 1}), stuck},
		{"does not verify what it holds after a reconnect", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if _, ok := in.(Reconnected); ok && m.state == Held {
				m.up = true
				return m, nil, true
			}
			return m, nil, false
		}), config{clients: 2, left: budget{cut: 1, remove: 1}, options: options{clings: true}}, stuck},
		{"takes a delete of unknown outcome for done", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			if u, ok := in.(Unknown); ok && u.Op == OpDelete && u.Epoch == m.epoch && m.state == Releasing {
				next := m
				effects := next.over()
				return next, effects, true
			}
			return m, nil, false
		}), three(budget{cut: 1}), leftBehind},
		{"waits for a listing whose answer was lost", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			u, ok := in.(Unknown)
			return m, nil, ok && u.Op == OpList && m.state == Listing
		}), three(budget{cut: 1}), stuck},
		{"does not let a caller go who has given up when the connection goes", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Suspended)
			if ok {
				m.up = false
			}
			return m, nil, ok
		}), config{clients: 2, left: budget{lapse: 2, withdraw: 1, cut: 1}}, keptOn},
		{"holds on when the connection goes though it is strict", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Suspended)
			if ok = ok && m.state == Held; ok {
				m.up = false
			}
			return m, nil, ok
		}), config{clients: 2, left: budget{cut: 1}, flags: []uint8{flagStrict, flagStrict}}, stillHeld},
		{"gives its node up while the function still runs", alter(func(_ Machine, in Input) Input {
			if s, ok := in.(Started); ok {
				s.Keep = false
				return s
			}
			return in
		}), config{clients: 3, left: budget{lapse: 1}, flags: []uint8{flagKeep, flagKeep, flagKeep}}, letIn},
		{"tells the end but not the loss", after(func(_, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			return next, without[Lose](effects)
		}), three(budget{lapse: 1}), letGo},
		{"queues though it was only to try", alter(func(_ Machine, in Input) Input {
			if s, ok := in.(Started); ok {
				s.Try = false
				return s
			}
			return in
		}), config{clients: 3, flags: []uint8{flagTry}}, outOfOrder},
	}
}
