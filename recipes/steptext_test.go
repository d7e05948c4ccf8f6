package recipes

import (
	"fmt"
	"strconv"
	"strings"
)

// stepTexts tell in words what a step does; {a} is its client, {n} its node, {next} the one that is made.
var stepTexts = map[stepKind]string{
	stepStart:        "{a} asks for the lock",
	stepAnswer:       "the answer reaches {a}",
	stepFail:         "{a} gives an answer up",
	stepGone:         "the watch of {a} on #{n} fires",
	stepCatchUp:      "the replica of {a} catches up by one",
	stepReconnect:    "{a} reconnects, {seen} behind",
	stepDropDead:     "the server closes the connection of {a}, whose session is over",
	stepExpired:      "{a} hears that its session is over",
	stepOpen:         "{a} opens session {epoch}",
	stepDiscard:      "a node that {a} left behind is deleted",
	stepPaused:       "the pause of {a} is over",
	stepFollows:      "{a} hears that the lock in whose place it was to read has ended",
	stepRelease:      "{a} releases",
	stepReleaseEarly: "{a} releases",
	stepLeaves:       "somebody outside, who holds with #{n}, leaves",
	stepLeavesFloor:  "a guest, who holds with #{n}, leaves with a floor",
	stepGivesUp:      "somebody outside gives up with #{n}",
	stepForeignJoins: "a foreign contender joins as #{next}",
	stepGuestJoins:   "a guest joins as #{next}",
	stepDowngrade:    "the foreign writer makes its read node #{next} in the place of #{n}",
	stepChanged:      "{a} hears that the leases or the size may have changed",
	stepEnters:       "a guest trades #{n} for the lease #{next}",
	stepLarger:       "the semaphore is made larger by one",
	stepSmaller:      "the semaphore is made smaller by one",
	stepCrash:        "{a} panics",
	stepCancel:       "the create of {a} is taken back before it is sent",
	stepUntaken:      "{a} withdraws without having taken the grant",
	stepReap:         "the directory is reaped",
	stepChange:       "somebody overwrites the directory's data",
	stepWithdraw:     "{a} gives up",
	stepCut:          "the connection of {a} breaks",
	stepLapse:        "T passes for {a}",
	stepRenew:        "a ping renews the lease of {a}",
	stepExpire:       "the leader ends the session of {a}",
	stepKill:         "somebody kills the session of {a}",
	stepRemove:       "somebody deletes #{n}",
	stepAskedBack:    "somebody asks for the lock of #{n} back",
	stepAskedSoon:    "somebody asks for the lock of #{n} back, and soon",
	stepAskedLate:    "somebody asks for the lock of #{n} back, and not so soon",
	stepOverdue:      "the time of {a} to give the lock back is over",
	stepRefuse:       "a server refuses {refused} of {a}",
	stepGhost:        "a create of a dead session of {a} is executed in the next one",
}

// stepText tells in words what a step will do to a world.
func (e *environment) stepText(w *world, s step, name rune) string {
	cl := &w.clients[s.client]
	if s.kind == stepExecute || s.kind == stepExecutePlain {
		return e.executeText(cl, s, name)
	}
	refused := ""
	if i := cl.find(sent); i >= 0 {
		refused = Op(cl.requests[i].op).String()
	}
	return strings.NewReplacer(
		"{a}", string(name), "{n}", strconv.Itoa(int(s.node)), "{next}", strconv.Itoa(int(w.next)),
		"{seen}", strconv.Itoa(int(cl.seen)), "{epoch}", strconv.Itoa(int(cl.epoch)+1), "{refused}", refused,
	).Replace(stepTexts[s.kind])
}

func (e *environment) executeText(cl *client, s step, name rune) string {
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
}
