package doctor

import (
	"strconv"
	"strings"
	"time"
)

// Words returns the four-letter words to send to each server.
func Words() []string { return []string{"srvr", "conf", "mntr", "ruok", "isro", "cons"} }

const refusedWord = "is not executed because it is not in the whitelist"

// refused reports whether the server refuses to answer the word.
func (s Server) refused(word string) bool { return strings.Contains(s.Answers[word], refusedWord) }

// value returns the value of a key in an answer, which has lines such as `Mode: leader`,
// `tickTime=500`, or a key and a value with a tab in between.
func value(answer, key string) string {
	for line := range strings.Lines(answer) {
		if rest, ok := strings.CutPrefix(line, key); ok && rest != "" && strings.ContainsAny(rest[:1], ":=\t") {
			return strings.TrimSpace(rest[1:])
		}
	}
	return ""
}

func (s Server) mode() string { return value(s.Answers["srvr"], "Mode") }

// Serves reports whether there was a session with the server.
func (s Server) Serves() bool { return s.Refusal == "" }

// version returns the version number without its suffix, which differs between builds.
func (s Server) version() string {
	version, _, _ := strings.Cut(value(s.Answers["srvr"], "Zookeeper version"), ",")
	version, _, _ = strings.Cut(version, "-")
	return version
}

// zxid returns the last transaction in an answer to srvr, or -1.
func zxid(srvr string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(value(srvr, "Zxid"), "0x"), 16, 64)
	if err != nil {
		return -1
	}
	return n
}

// number returns a number in an answer, or -1.
func (s Server) number(word, key string) int {
	n, err := strconv.Atoi(value(s.Answers[word], key))
	if err != nil {
		return -1
	}
	return n
}

// tick returns the server's tickTime, and whether the server reports it. Otherwise tick
// derives it from the bounds of the session timeout, which default to 2 and 20 ticks.
func (s Server) tick() (tick time.Duration, said bool) {
	if ms := s.number("conf", "tickTime"); ms > 0 {
		return time.Duration(ms) * time.Millisecond, true
	}
	if s.Least > 0 && s.Most == 10*s.Least {
		return s.Least / 2, false
	}
	return 0, false
}

// members returns the size of the ensemble according to conf, or 0.
func (s Server) members() (n int) {
	for line := range strings.Lines(s.Answers["conf"]) {
		if strings.HasPrefix(line, "server.") {
			n++
		}
	}
	return n
}

// Established finds a session in an answer to cons, and returns when its connection was
// made, on the server's clock.
func Established(cons string, session int64) (time.Time, bool) {
	id := "sid=0x" + strconv.FormatUint(uint64(session), 16) + ","
	for line := range strings.Lines(cons) {
		_, rest, found := strings.Cut(line, id)
		if !found {
			continue
		}
		_, text, found := strings.Cut(rest, "est=")
		text, _, _ = strings.Cut(text, ",")
		if ms, err := strconv.ParseInt(text, 10, 64); found && err == nil {
			return time.UnixMilli(ms), true
		}
	}
	return time.Time{}, false
}
