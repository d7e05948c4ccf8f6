package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// servers judges each server on its own.
func servers(o Observation) (all []Finding) {
	for _, s := range o.Servers {
		all = append(all, s.findings()...)
	}
	return all
}

func (s Server) findings() []Finding {
	if !s.Reached {
		return []Finding{{Warn, "reachable", s.Addr, "It cannot be reached: " + s.Refusal + ".", "Start it, or take it out of the connect string."}}
	}
	readOnly := Finding{Bad, "read-only", s.Addr, "It serves reads only: it has no quorum, and no lock is granted through it.", "Connect it to the other servers."}
	if !s.Serves() {
		if s.mode() == "read-only" {
			return []Finding{readOnly}
		}
		why := s.Refusal
		if strings.Contains(s.Answers["srvr"], "not currently serving") {
			why = "it says that it does not serve requests"
		}
		return []Finding{{Warn, "serving", s.Addr, "It takes connections, but no session: " + why + ".", "Look into its log, and for a quorum of servers that reach each other."}}
	}
	var all []Finding
	if isro := strings.TrimSpace(s.Answers["isro"]); s.ReadOnly || isro == "ro" || s.mode() == "read-only" {
		all = append(all, readOnly)
	}
	if ruok := strings.TrimSpace(s.Answers["ruok"]); ruok != "" && !s.refused("ruok") && ruok != "imok" {
		all = append(all, Finding{Warn, "ruok", s.Addr, "It answers ruok with " + ruok + ".", "Look into its log."})
	}
	if s.mode() == "observer" {
		all = append(all, Finding{
			Note, "observer", s.Addr, "It is an observer, which the leader may hear of a hop later.",
			"If it follows through an ObserverMaster, tell WithTickTime 1.6 times the tickTime.",
		})
	}
	if slow := 100 * time.Millisecond; s.RoundTrip > slow {
		all = append(all, Finding{Warn, "round-trip", s.Addr, fmt.Sprintf("A round trip takes %v.", round(s.RoundTrip)), "Each free lock takes one or more: use servers that are nearer or less busy."})
	}
	if Worst(all) == Bad {
		return all
	}
	seen := "It serves"
	if mode := s.mode(); mode != "" {
		seen = fmt.Sprintf("It serves as %s, version %s", mode, s.version())
	}
	if s.RoundTrip > 0 {
		seen += fmt.Sprintf(", with a round trip of %v", round(s.RoundTrip))
	}
	return append(all, Finding{OK, "serving", s.Addr, seen + ".", ""})
}

// ensemble judges the servers together.
func ensemble(o Observation) (all []Finding) {
	const subject = "ensemble"
	modes, versions, sizes := map[string][]string{}, map[string][]string{}, 0
	silent, unserved := 0, 0
	for _, s := range o.Servers {
		if !s.Serves() {
			unserved++
			continue
		}
		sizes = max(sizes, s.members())
		if s.mode() == "" {
			silent++
			continue
		}
		modes[s.mode()] = append(modes[s.mode()], s.Addr)
		versions[s.version()] = append(versions[s.version()], s.Addr)
	}
	bad := func(level Level, check, seen, do string) { all = append(all, Finding{level, check, subject, seen, do}) }
	leaders, alone := modes["leader"], modes["standalone"]
	switch {
	case unserved == len(o.Servers):
		bad(Bad, "quorum", "No server takes a session.", "Start the servers, and have a majority of them reach each other.")
	case len(leaders) > 1:
		bad(Bad, "leaders", "There are several leaders: "+strings.Join(leaders, ", ")+".", "If they stay, they lead different ensembles: name the servers of one.")
	case len(alone) > 0 && len(o.Servers)-unserved > silent+1:
		bad(Bad, "leaders", strings.Join(alone, ", ")+" is an ensemble of its own: its locks exclude no process elsewhere.", "Name the servers of one ensemble.")
	case len(leaders)+len(alone) == 0 && silent+unserved == 0:
		bad(Warn, "leaders", "There is no leader among the servers named.", "Ask again after an election; else name the leader, too.")
	}
	if len(versions) > 1 {
		bad(Warn, "versions", "There are several versions: "+strings.Join(slices.Sorted(maps.Keys(versions)), ", ")+".", "Finish the upgrade.")
	}
	if sizes > len(o.Servers) {
		bad(Note, "connect-string", fmt.Sprintf("The ensemble has %d servers, and the connect string names %d.", sizes, len(o.Servers)), "Name all of them: a lock outlives a silent server only if there is another one to turn to.")
	}
	for _, s := range o.Servers {
		// The leader counts itself as a voter, and not as in sync with itself.
		if voters, synced := s.number("mntr", "zk_quorum_size"), s.number("mntr", "zk_synced_followers"); s.mode() == "leader" && voters > 0 && synced >= 0 && synced+1 < voters {
			bad(Warn, "synced", fmt.Sprintf("The leader %s has %d of %d voters in sync, itself included.", s.Addr, synced+1, voters), "Look at the others: one more failure may stop every lock.")
		}
	}
	all = append(all, lags(o)...)
	if len(all) == 0 && len(modes) > 0 {
		bad(OK, "quorum", fmt.Sprintf("Servers that serve: %d of %d, with one leader and one version.", len(o.Servers)-unserved, len(o.Servers)), "")
	}
	return all
}

// Lags tells whether a server lags behind another one.
func (o Observation) Lags() bool { return len(lags(o)) > 0 }

// lags finds the servers that lack what another one had some time before.
func lags(o Observation) (all []Finding) {
	newest, at := int64(-1), ""
	for _, s := range o.Servers {
		if z := zxid(s.Answers["srvr"]); s.Serves() && z > newest {
			newest, at = z, s.Addr
		}
	}
	const epoch = 32
	for _, s := range o.Servers {
		switch z := zxid(s.Later); {
		case !s.Serves() || z < 0 || z >= newest:
		case z>>epoch != newest>>epoch:
			all = append(all, Finding{Warn, "lag", s.Addr, fmt.Sprintf("It is in an epoch before that of %s, at least %v behind.", at, round(s.Between)), "Look at its disk and network; a lagging server is left out of the quorum in the end."})
		default:
			all = append(all, Finding{Warn, "lag", s.Addr, fmt.Sprintf("It is %d transactions and at least %v behind %s.", newest-z, round(s.Between), at), "Look at its disk and network; a lagging server is left out of the quorum in the end."})
		}
	}
	return all
}

// words tells which four-letter words are refused.
func words(o Observation) (all []Finding) {
	by := map[string][]string{}
	for _, s := range o.Servers {
		var refused []string
		for _, word := range Words() {
			if s.refused(word) {
				refused = append(refused, word)
			}
		}
		if len(refused) > 0 {
			key := strings.Join(refused, ",")
			by[key] = append(by[key], s.Addr)
		}
	}
	for _, refused := range slices.Sorted(maps.Keys(by)) {
		all = append(all, Finding{
			Note, "words", strings.Join(by[refused], ","), "The four-letter words " + refused + " are refused, and what they tell was not seen.",
			"Allow them with 4lw.commands.whitelist=" + strings.Join(Words(), ",") + " in zoo.cfg.",
		})
	}
	return all
}

// round leaves the digits that matter to people.
func round(d time.Duration) time.Duration {
	switch {
	case d < 10*time.Millisecond && d > -10*time.Millisecond:
		return d.Round(10 * time.Microsecond)
	case d < time.Second && d > -time.Second:
		return d.Round(time.Millisecond)
	default:
		return d.Round(100 * time.Millisecond)
	}
}
