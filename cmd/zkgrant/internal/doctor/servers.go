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
		do := "Start it, or remove it from the connect string."
		if strings.Contains(s.Refusal, "tls:") || strings.Contains(s.Refusal, "x509:") {
			do = "Check the certificates of both sides, and their dates."
		}
		return []Finding{{Warn, "reachable", s.Addr, "This server cannot be reached: " + s.Refusal + ".", do}}
	}
	readOnly := Finding{Bad, "read-only", s.Addr, "This server is read-only: it has no quorum, and grants no locks.", "Restore its connection to the other servers."}
	if !s.Serves() {
		if s.mode() == "read-only" {
			return []Finding{readOnly}
		}
		why := s.Refusal
		if strings.Contains(s.Answers["srvr"], "not currently serving") {
			why = "it reports that it does not serve requests"
		}
		return []Finding{{Warn, "serving", s.Addr, "This server accepts connections, but no sessions: " + why + ".", "Check its log, and that a majority of the servers can reach each other."}}
	}
	var all []Finding
	if isro := strings.TrimSpace(s.Answers["isro"]); s.ReadOnly || isro == "ro" || s.mode() == "read-only" {
		all = append(all, readOnly)
	}
	if ruok := strings.TrimSpace(s.Answers["ruok"]); ruok != "" && !s.refused("ruok") && ruok != "imok" {
		all = append(all, Finding{Warn, "ruok", s.Addr, "This server answers ruok with " + ruok + ".", "Check its log."})
	}
	if s.mode() == "observer" {
		all = append(all, Finding{
			Note, "observer", s.Addr, "This server is an observer, whose messages may reach the leader one hop later.",
			"If it follows an ObserverMaster, set WithTickTime to 1.6 times the tickTime.",
		})
	}
	if slow := 100 * time.Millisecond; s.RoundTrip > slow {
		all = append(all, Finding{Warn, "round-trip", s.Addr, fmt.Sprintf("A round trip takes %v.", round(s.RoundTrip)), "Each free lock takes at least one: use nearer or less busy servers."})
	}
	if Worst(all) == Bad {
		return all
	}
	seen := "Serving"
	if mode := s.mode(); mode != "" {
		seen = fmt.Sprintf("Serving as %s, version %s", mode, s.version())
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
	places := map[string]string{}
	o.Servers = slices.DeleteFunc(slices.Clone(o.Servers), func(s Server) bool {
		first, again := places[s.At]
		switch {
		case s.At == "":
			return false
		case again:
			all = append(all, Finding{Note, "connect-string", subject, first + " and " + s.Addr + " are the same server.", "Name each server once."})
		default:
			places[s.At] = s.Addr
		}
		return again
	})
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
		bad(Bad, "quorum", "No server accepts a session.", "Start the servers, and make sure that a majority of them can reach each other.")
	case len(leaders) > 1:
		bad(Bad, "leaders", "Several servers are leaders: "+strings.Join(leaders, ", ")+".", "If that stays so, they lead different ensembles: use the servers of one ensemble only.")
	case len(alone) > 0 && len(o.Servers)-unserved > silent+1:
		bad(Bad, "leaders", strings.Join(alone, ", ")+" is a separate ensemble: its locks do not exclude processes of the others.", "Use the servers of one ensemble only.")
	case len(leaders)+len(alone) == 0 && silent+unserved == 0:
		bad(Warn, "leaders", "None of these servers is the leader.", "Run doctor again after an election; if that does not help, add the leader to the connect string.")
	}
	if len(versions) > 1 {
		bad(Warn, "versions", "The servers have different versions: "+strings.Join(slices.Sorted(maps.Keys(versions)), ", ")+".", "Finish the upgrade.")
	}
	if sizes > len(o.Servers) {
		bad(Note, "connect-string", fmt.Sprintf("The ensemble has %d servers, and the connect string names %d.", sizes, len(o.Servers)), "List all of them: a lock survives a silent server only if another server is listed.")
	}
	for _, s := range o.Servers {
		// The leader counts itself among the voters, but not among the synced followers.
		if voters, synced := s.number("mntr", "zk_quorum_size"), s.number("mntr", "zk_synced_followers"); s.mode() == "leader" && voters > 0 && synced >= 0 && synced+1 < voters {
			bad(Warn, "synced", fmt.Sprintf("The leader %s has %d of %d voters in sync, itself included.", s.Addr, synced+1, voters), "Check the other voters: one more failure may stop every lock.")
		}
	}
	all = append(all, lags(o)...)
	if len(all) == 0 && len(modes) > 0 {
		with := ""
		if len(leaders) == 1 && len(versions) == 1 && silent == 0 {
			with = ", with one leader and one version"
		}
		bad(OK, "quorum", fmt.Sprintf("%d of %d servers are serving%s.", len(o.Servers)-unserved, len(o.Servers), with), "")
	}
	return all
}

// Lags reports whether a server lags behind another one.
func (o Observation) Lags() bool { return len(lags(o)) > 0 }

// lags finds the servers that still lack what another server had some time ago.
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
			all = append(all, Finding{Warn, "lag", s.Addr, fmt.Sprintf("This server is in an older epoch than %s, and at least %v behind it.", at, round(s.Between)), "Check its disk and network; a lagging server eventually drops out of the quorum."})
		default:
			all = append(all, Finding{Warn, "lag", s.Addr, fmt.Sprintf("This server is %d transactions and at least %v behind %s.", newest-z, round(s.Between), at), "Check its disk and network; a lagging server eventually drops out of the quorum."})
		}
	}
	return all
}

// words reports which four-letter words are refused.
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
			Note, "words", strings.Join(by[refused], ","), "The four-letter words " + refused + " are refused, so some checks were skipped.",
			"Allow them with 4lw.commands.whitelist=" + strings.Join(Words(), ",") + " in zoo.cfg.",
		})
	}
	return all
}

// round keeps the digits that matter to a reader.
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
