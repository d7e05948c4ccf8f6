package recipes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkgrant/zkgrant/events"
)

// This file describes inputs and effects in words, for transcripts and traces.

// short leaves out the leading zeros of a node's number.
func short(node string) string {
	name, ok := events.ParseName(node)
	switch {
	case strings.HasPrefix(node, "leases/"):
		return node
	case !ok:
		return fmt.Sprintf("%q", node)
	case name.Kind == events.KindRead, name.Kind == events.KindWrite, name.Kind.Kazoo():
		return fmt.Sprintf("%q", fmt.Sprintf("%v %d", name.Kind, name.Seq))
	default:
		return fmt.Sprintf("#%d", name.Seq)
	}
}

func also(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

func by(moment Moment) string { return also(moment != 0, fmt.Sprintf(" by %d", moment)) }

func effectText(e Effect) string {
	switch e := e.(type) {
	case Create:
		if e.Back.Text != "" {
			return fmt.Sprintf("create attempt %d for %s", e.Attempt, e.Back.Text)
		}
		return fmt.Sprintf("create attempt %d", e.Attempt)
	case Cancel:
		return "cancel the create"
	case List:
		return also(e.Barrier, "barrier, ") + "list"
	case Watch:
		return "watch " + short(e.Node.Text)
	case Claim:
		made, read := also(e.Record == RecordMade, " with a record"), also(e.Record == RecordRead, " and read the record")
		return "claim " + short(e.Node.Text) + made + read
	case Advance:
		return fmt.Sprintf("advance %s past %s to %s", short(e.Node.Text), short(e.Past.Text), short(e.Next.Text))
	case Survey:
		return "survey" + also(e.Node.Text != "", " "+short(e.Node.Text)) + also(e.Watch, " and watch")
	case Enter:
		text := fmt.Sprintf("enter %s for %d at version %d", short(e.Node.Text), e.Permits, e.Version)
		return text + also(e.Floor, " with a floor")
	case Delete:
		return "delete " + short(e.Node.Text) + also(e.Clean, " and the record") + also(e.Floor, " with a floor")
	case Pause:
		if e.For != 0 {
			return "pause for the delay"
		}
		return fmt.Sprintf("pause, attempt %d", e.Attempt)
	case Discard:
		return "discard " + short(e.Node.Text)
	case Grant:
		return fmt.Sprintf("GRANT %s token %d", short(e.Node), e.Token) + also(e.Abandoned != nil, " behind a crash")
	case Lose:
		return fmt.Sprintf("LOST %q", e.Reason.String())
	case Warm:
		return "keep warm"
	case Queue:
		if e.Delay != 0 {
			return "QUEUED within the delay"
		}
		return fmt.Sprintf("QUEUED behind %d", e.Ahead)
	case Requeue:
		return "REQUEUED"
	case Revoke:
		return "ASKED BACK" + by(e.By)
	case Finish:
		return fmt.Sprintf("END %q", e.Why.String())
	default:
		return fmt.Sprintf("%T", e)
	}
}

func inputText(in Input) string {
	const late = ", too late"
	switch in := in.(type) {
	case Started:
		return "Started" + also(in.Try, " try") + also(in.Strict, " strict") + also(in.Detect, " detect")
	case Withdrawn:
		return fmt.Sprintf("Withdrawn %q", in.Why.String()) + also(in.Taken, ", taken") + also(in.Ran, ", a function ran")
	case Opened:
		return fmt.Sprintf("Opened epoch %d", in.Epoch)
	case RevocationRequested:
		return "RevocationRequested " + short(in.Node.Text) + by(in.By)
	case Overdue:
		return fmt.Sprintf("Overdue %d", in.By)
	case Gone:
		return "Gone " + short(in.Node.Text)
	case Created:
		return "Created " + short(in.Node.Text) + also(in.Alone, " alone") + also(in.Alone && !in.Fresh, late)
	case Enqueued:
		text := "Enqueued"
		for _, n := range in.Nodes {
			text += " " + short(n.Text)
		}
		return text + also(in.Alone, " alone") + also(in.Alone && !in.Fresh, late)
	case Listed:
		var queue []string
		for _, n := range slices.Backward(in.Queue) {
			queue = append(queue, short(n.Text))
		}
		text := "Listed [" + strings.Join(queue, " ") + "]"
		if in.Own == (Own{}) {
			return text + " own not found"
		}
		text += " own " + short(in.Own.Name.Text) + also(in.Parted, ", parted")
		return text + also(in.Size > 0, fmt.Sprintf(" of %d", in.Size))
	case Claimed:
		text := "Claimed" + also(in.Recorded, " with a record") + also(in.Abandoned != nil, " behind a crash")
		return text + also(!in.Fresh, late)
	case Advanced:
		text := "Advanced: " + also(in.Floor, "floor") + also(in.Floor && in.Stands, ", ") + also(in.Stands, "stands")
		return text + also(!in.Floor && !in.Stands, "neither") + also(in.Floor && !in.Fresh, late)
	case Surveyed:
		return fmt.Sprintf("Surveyed: %d of %d in use", in.InUse, in.Size)
	case Entered:
		return "Entered " + strings.Join(in.Permits, " ") + also(!in.Fresh, late)
	case Refused:
		return fmt.Sprintf("Refused %v", in.Op) + also(in.Stale, ": stale") + also(in.Missing && !in.Stale, ": no node")
	case Unknown:
		return fmt.Sprintf("Unknown %v", in.Op)
	default:
		return strings.TrimPrefix(fmt.Sprintf("%T", in), "recipes.")
	}
}

// stepTexts describe steps in words. {a} is the client, {n} the node, {next} the node
// that is created.
var stepTexts = map[stepKind]string{
	stepStart: "{a} asks for the lock", stepAnswer: "the answer reaches {a}",
	stepFail: "{a} gives up an answer", stepGone: "the watch of {a} on #{n} fires",
	stepCatchUp: "the replica of {a} catches up by one", stepReconnect: "{a} reconnects, {seen} behind",
	stepDropDead: "the server closes the connection of {a}, whose session is over",
	stepExpired:  "{a} hears that its session is over", stepOpen: "{a} opens session {epoch}",
	stepDiscard: "a node that {a} left behind is deleted", stepPaused: "the pause of {a} is over",
	stepDelayOver: "the lock-delay is over",
	stepFollows:   "{a} hears that the lock in whose place it was to read has ended",
	stepRelease:   "{a} releases", stepReleaseEarly: "{a} releases",
	stepLeaves:       "a contender outside that holds with #{n} leaves",
	stepLeavesFloor:  "a guest that holds with #{n} leaves with a floor",
	stepGivesUp:      "a contender outside with #{n} gives up",
	stepForeignJoins: "a foreign contender joins as #{next}", stepGuestJoins: "a guest joins as #{next}",
	stepDowngrade: "the foreign writer makes its read node #{next} in the place of #{n}",
	stepChanged:   "{a} hears that the permits or the size may have changed",
	stepListed:    "the session of {a} hears of the end of a listing",
	stepEnters:    "a guest trades #{n} for the permit #{next}",
	stepLarger:    "the semaphore is made larger by one", stepSmaller: "the semaphore is made smaller by one",
	stepCrash: "{a} panics", stepCancel: "the create of {a} is taken back before it is sent",
	stepWrite: "{a} writes data", stepUntaken: "{a} withdraws without having taken the grant",
	stepReap: "the directory is reaped", stepChange: "another program overwrites the directory's data",
	stepWithdraw: "{a} gives up", stepCut: "the connection of {a} breaks", stepLapse: "T passes for {a}",
	stepRenew: "a ping renews the lease of {a}", stepExpire: "the leader ends the session of {a}",
	stepKill: "an operator kills the session of {a}", stepRemove: "#{n} is deleted by hand",
	stepRevoke:     "the lock of #{n} is asked back",
	stepRevokeSoon: "the lock of #{n} is asked back, and soon",
	stepRevokeLate: "the lock of #{n} is asked back, and not so soon",
	stepOverdue:    "the time of {a} to give the lock back is over",
	stepRefuse:     "a server refuses {refused} of {a}",
	stepGhost:      "a create of a dead session of {a} is executed in the next one",
}

func (e *environment) stepText(w *world, s step, name rune) string {
	cl := &w.clients[s.client]
	if s.kind == stepExecute || s.kind == stepExecutePlain {
		return e.executeText(cl, s, name)
	}
	refused := ""
	if i := cl.find(sent); i >= 0 {
		refused = cl.requests[i].op.String()
	}
	return strings.NewReplacer(
		"{a}", string(name), "{n}", strconv.Itoa(int(s.node)), "{next}", strconv.Itoa(int(w.next)),
		"{seen}", strconv.Itoa(int(cl.seen)), "{epoch}", strconv.Itoa(int(cl.epoch)+1), "{refused}", refused,
	).Replace(stepTexts[s.kind])
}

func (e *environment) executeText(cl *client, s step, name rune) string {
	i, part := e.picked(cl, s)
	r := cl.requests[i]
	what := r.op.String()
	if part != 0 && r.op == OpList {
		what += fmt.Sprintf(" of directory %c", 'p'+part-1)
	} else if part != 0 {
		parts := [...]string{PartFloor: "the reading of the floor", PartNext: "the watch", PartClaim: "the claim"}
		if r.op == OpSurvey {
			parts = [...]string{partSize: "the size", partInUse: "the counting", partOwn: "the watch on the own node"}
		}
		what = parts[part] + " of " + what
	}
	if s.kind == stepExecutePlain {
		what += ", without the directory's data,"
	}
	where := ""
	if cl.conn == connUp && (!r.write() || part == uint8(PartFloor) || part == uint8(PartNext)) {
		where = fmt.Sprintf(" %d behind", cl.lag)
	}
	return fmt.Sprintf("a server executes %v of %c%s", what, name, where)
}
