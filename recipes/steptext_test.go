package recipes

import "fmt"

// stepText tells in words what a step will do to a world.
func (e *environment) stepText(w *world, s step, name rune) string {
	cl := &w.clients[s.client]
	switch s.kind {
	case stepStart:
		return fmt.Sprintf("%c asks for the lock", name)
	case stepExecute, stepExecutePlain:
		i, part := e.picked(cl, s)
		r := cl.requests[i]
		what := Op(r.op).String()
		if part != 0 && Op(r.op) == OpList {
			what += fmt.Sprintf(" of directory %c", 'p'+part-1)
		} else if part != 0 {
			parts := [...]string{partFloor: "the reading of the floor", partWatch: "the watch", partClaim: "the claim"}
			if Op(r.op) == OpSurvey {
				parts = [...]string{partSize: "the size", partTaken: "the counting", partOwn: "the watch on the own node"}
			}
			what = parts[part] + " of " + what
		}
		if s.kind == stepExecutePlain {
			what += ", without the directory's data,"
		}
		where := ""
		if cl.conn == connUp && (!r.write() || part == partFloor || part == partWatch) {
			where = fmt.Sprintf(" %d behind", cl.lag)
		}
		return fmt.Sprintf("a server executes %v of %c%s", what, name, where)
	case stepAnswer:
		return fmt.Sprintf("the answer reaches %c", name)
	case stepFail:
		return fmt.Sprintf("%c gives an answer up", name)
	case stepGone:
		return fmt.Sprintf("the watch of %c on #%d fires", name, s.node)
	case stepCatchUp:
		return fmt.Sprintf("the replica of %c catches up by one", name)
	case stepReconnect:
		return fmt.Sprintf("%c reconnects, %d behind", name, cl.seen)
	case stepDropDead:
		return fmt.Sprintf("the server closes the connection of %c, whose session is over", name)
	case stepExpired:
		return fmt.Sprintf("%c hears that its session is over", name)
	case stepOpen:
		return fmt.Sprintf("%c opens session %d", name, cl.epoch+1)
	case stepDiscard:
		return fmt.Sprintf("a node that %c left behind is deleted", name)
	case stepPaused:
		return fmt.Sprintf("the pause of %c is over", name)
	case stepFollows:
		return fmt.Sprintf("%c hears that the lock in whose place it was to read has ended", name)
	case stepRelease, stepReleaseEarly:
		return fmt.Sprintf("%c releases", name)
	case stepLeaves:
		return fmt.Sprintf("somebody outside, who holds with #%d, leaves", s.node)
	case stepLeavesFloor:
		return fmt.Sprintf("a guest, who holds with #%d, leaves with a floor", s.node)
	case stepGivesUp:
		return fmt.Sprintf("somebody outside gives up with #%d", s.node)
	case stepForeignJoins:
		return fmt.Sprintf("a foreign contender joins as #%d", w.next)
	case stepGuestJoins:
		return fmt.Sprintf("a guest joins as #%d", w.next)
	case stepDowngrade:
		return fmt.Sprintf("the foreign writer makes its read node #%d in the place of #%d", w.next, s.node)
	case stepChanged:
		return fmt.Sprintf("%c hears that the leases or the size may have changed", name)
	case stepEnters:
		return fmt.Sprintf("a guest trades #%d for the lease #%d", s.node, w.next)
	case stepLarger:
		return "the semaphore is made larger by one"
	case stepCrash:
		return fmt.Sprintf("%c panics", name)
	case stepUntaken:
		return fmt.Sprintf("%c withdraws without having taken the grant", name)
	case stepSmaller:
		return "the semaphore is made smaller by one"
	case stepReap:
		return "the directory is reaped"
	case stepChange:
		return "somebody overwrites the directory's data"
	case stepWithdraw:
		return fmt.Sprintf("%c gives up", name)
	case stepCut:
		return fmt.Sprintf("the connection of %c breaks", name)
	case stepLapse:
		return fmt.Sprintf("T passes for %c", name)
	case stepRenew:
		return fmt.Sprintf("a ping renews the lease of %c", name)
	case stepExpire:
		return fmt.Sprintf("the leader ends the session of %c", name)
	case stepKill:
		return fmt.Sprintf("somebody kills the session of %c", name)
	case stepRemove:
		return fmt.Sprintf("somebody deletes #%d", s.node)
	case stepAskedBack:
		return fmt.Sprintf("somebody asks for the lock of #%d back", s.node)
	case stepAskedSoon:
		return fmt.Sprintf("somebody asks for the lock of #%d back, and soon", s.node)
	case stepAskedLate:
		return fmt.Sprintf("somebody asks for the lock of #%d back, and not so soon", s.node)
	case stepOverdue:
		return fmt.Sprintf("the time of %c to give the lock back is over", name)
	case stepRefuse:
		return fmt.Sprintf("a server refuses %v of %c", Op(cl.requests[cl.find(sent)].op), name)
	case stepGhost:
		return fmt.Sprintf("a create of a dead session of %c is executed in the next one", name)
	default:
		return "?"
	}
}
