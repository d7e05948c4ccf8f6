package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// timing judges the session timeout and tickTime.
func timing(o Observation) (all []Finding) {
	if !slices.ContainsFunc(o.Servers, Server.Serves) {
		return nil
	}
	if o.Granted > 0 {
		all = append(all, o.timeout())
	}
	bounds, ticks := map[[2]time.Duration][]string{}, map[time.Duration][]string{}
	longest, said := time.Duration(0), true
	for _, s := range o.Servers {
		if s.Least > 0 && s.Most > 0 {
			key := [2]time.Duration{s.Least, s.Most}
			bounds[key] = append(bounds[key], s.Addr)
		}
		tick, by := s.tick()
		said = said && (by || !s.Serves())
		if tick == 0 {
			continue
		}
		ticks[tick] = append(ticks[tick], s.Addr)
		longest = max(longest, tick)
	}
	if len(bounds) > 1 {
		var each []string
		for key, of := range bounds {
			each = append(each, fmt.Sprintf("%v to %v at %s", key[0], key[1], strings.Join(of, ", ")))
		}
		slices.Sort(each) // printed findings are recognised by their text, so keep it stable
		all = append(all, Finding{
			Warn, "bounds", "session timeout", "The servers have different bounds for the session timeout: " + strings.Join(each, "; ") + ".",
			"Set the same minSessionTimeout, maxSessionTimeout and tickTime on every server: otherwise a reconnect may change a session's timeout.",
		})
	}
	if len(ticks) > 1 {
		all = append(all, Finding{Warn, "ticks", "tickTime", fmt.Sprintf("The servers have different tickTimes: %v.", slices.Sorted(maps.Keys(ticks))), "Set the same on every server: the leader's counts, and any server may lead."})
	}
	has := "The servers have"
	if !said {
		has = "Judging by their answers and their bounds for the session timeout, the servers have"
	}
	seen := fmt.Sprintf("%s a tickTime of %v, and locks assume %v.", has, longest, o.Tick)
	const look = "Allow the four-letter word conf, or make sure that the tickTime in zoo.cfg is not longer."
	switch {
	case longest == 0:
		all = append(all, Finding{Note, "tick", "tickTime", fmt.Sprintf("It could not be read, and locks assume %v.", o.Tick), look})
	case longest > o.Tick:
		all = append(all, Finding{
			Bad, "tick", "tickTime", seen[:len(seen)-1] + ": a loss may be reported too late.",
			fmt.Sprintf("Set WithTickTime(%v) in programs and --tick-time=%v here, with a session timeout of %v or more.", longest, longest, 2*longest),
		})
	case !said: // bounds that are set in zoo.cfg say nothing about tickTime
		all = append(all, Finding{Note, "tick", "tickTime", seen, look})
	default:
		all = append(all, Finding{OK, "tick", "tickTime", seen, ""})
	}
	return all
}

// timeout judges the negotiated session timeout.
func (o Observation) timeout() Finding {
	const subject = "session timeout"
	within := ""
	for _, s := range o.Servers {
		if s.Least > 0 && s.Most > 0 {
			within = fmt.Sprintf("; the servers allow %v to %v", s.Least, s.Most)
			break
		}
	}
	if o.Asked != o.Granted {
		return Finding{Warn, "timeout", subject, fmt.Sprintf("%v was requested, but %v was granted%s.", o.Asked, o.Granted, within), "Request an allowed timeout, or change minSessionTimeout and maxSessionTimeout."}
	}
	return Finding{OK, "timeout", subject, fmt.Sprintf("%v was requested and granted%s.", o.Asked, within), ""}
}

// clocks judges the servers' clocks. No lock depends on them, but the times that zkgrant
// prints do.
func clocks(o Observation) (all []Finding) {
	const tolerable = time.Second
	seen, widest := 0, time.Duration(0)
	for _, s := range o.Servers {
		if s.Clock == nil {
			continue
		}
		seen++
		ahead, which := s.Clock.Ahead, "ahead of"
		if ahead < 0 {
			ahead, which = -ahead, "behind"
		}
		widest = max(widest, ahead+s.Clock.Within)
		if ahead-s.Clock.Within > tolerable {
			all = append(all, Finding{
				Warn, "clock", s.Addr, fmt.Sprintf("This server's clock is %v %s this machine's, give or take %v.", round(ahead), which, round(s.Clock.Within)),
				"Synchronize the clocks: no lock depends on them, but the times that queue and ls show do.",
			})
		}
	}
	if seen > 0 && len(all) == 0 {
		return []Finding{{OK, "clock", "clocks", fmt.Sprintf("The servers' clocks differ from this machine's by %v at most; %d of %d could be read.", round(widest), seen, len(o.Servers)), ""}}
	}
	return all
}
