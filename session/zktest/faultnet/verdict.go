package faultnet

import "time"

// Verdict is what happens to a frame. The zero Verdict lets it pass.
type Verdict struct {
	kind  verdictKind
	delay time.Duration
}

type verdictKind uint8

const (
	pass verdictKind = iota // the zero Verdict
	drop
	hold
	holdFor
	cutBefore
	cutAfter
	swallow
)

// Pass delivers the frame.
func Pass() Verdict { return Verdict{} }

// Drop loses only this frame. TCP never does that; it simulates a peer that has forgotten
// the frame.
func Drop() Verdict { return Verdict{kind: drop} }

// Hold holds the frame, and everything after it in its direction, until [Network.Heal], or
// until the connection ends.
func Hold() Verdict { return Verdict{kind: hold} }

// HoldFor is Hold with a time limit.
func HoldFor(d time.Duration) Verdict { return Verdict{kind: holdFor, delay: d} }

// CutBefore ends the connection instead of delivering the frame. Earlier frames of its
// direction are delivered. What is in transit in the other direction is lost.
func CutBefore() Verdict { return Verdict{kind: cutBefore} }

// CutAfter delivers the frame, and then ends the connection as CutBefore does.
func CutAfter() Verdict { return Verdict{kind: cutAfter} }

// Swallow loses the frame and everything after it in its direction, for as long as the
// connection is open. The other direction continues.
func Swallow() Verdict { return Verdict{kind: swallow} }

// String describes the verdict in a trace.
func (v Verdict) String() string {
	name := [...]string{"pass", "drop", "hold", "hold for ", "cut before", "cut after", "swallow"}[v.kind]
	if v.kind == holdFor {
		name += v.delay.String()
	}
	return name
}
