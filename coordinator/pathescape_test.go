package coordinator_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// awkward are texts that mean something in a directory, or cannot be a component as they
// are.
func awkward() []string {
	return []string{
		"", ".", "..", "/", "a/b", "a%2Fb", "%", "%~", "%2E", "\x00", "\xff\xfe", "ü🔒", "plain-1.example", " \n",
		"locks", "leases", "size", "zookeeper", ".holder", "r.holder", "lock-0000000000", "r/lock-0000000000", "x-1-0000000001",
		"lock--2147483648", "lock--000000005", "__READ__0000000001", "_c_4f1c0a52-lease-0000000000", "latch-0000000007", "1234567890", "thread-1234567890",
		strings.Repeat("a", 200), strings.Repeat("a", 201), strings.Repeat("ü", 34), strings.Repeat("ü", 100), strings.Repeat("ü", 101), strings.Repeat("9", 300),
		strings.Repeat("a", 199) + "/", strings.Repeat("a", 190) + "0000000000",
	}
}

// numbered is how a server may end a name: it may be a contender's, of a library that
// nobody here knows.
var numbered = regexp.MustCompile(`[-0-9][0-9]{9}$`)

// wantComponent fails the test unless the text has a component with every promise of
// PathEscape.
func wantComponent(t *testing.T, text string) (component string) {
	t.Helper()
	c := coordinator.PathEscape(text)
	_, contends := events.ParseName(c)
	strange := strings.ContainsFunc(c, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' || r == ',' })
	switch c {
	case "", ".", "..", "locks", "leases", "size", "zookeeper":
		strange = true
	}
	if strange || contends || numbered.MatchString(c) || strings.HasSuffix(c, ".holder") || len(c) > 200 {
		t.Errorf("%q becomes %q of %d bytes, want a component of at most 200 bytes that means nothing", text, c, len(c))
	}
	back, err := coordinator.PathUnescape(c)
	if long := strings.Contains(c, "%~"); long != errors.Is(err, coordinator.ErrPath) || !long && (back != text || err != nil) {
		t.Errorf("%q becomes %q and then %q, %v; want the text, or ErrPath of a hash", text, c, back, err)
	}
	return c
}

func TestPathEscapeMakesOneComponentOfAnyText(t *testing.T) {
	texts := map[string]string{}
	for _, text := range awkward() {
		c := wantComponent(t, text)
		if other, twice := texts[c]; twice {
			t.Errorf("%q and %q both become %q", other, text, c)
		}
		texts[c] = text
	}
	for text, want := range map[string]string{
		"": "%", "a b/c": "a%20b%2Fc", "orders-2026": "orders-2026", "..": ".%2E", "locks": "lock%73", "r.holder": "r.holde%72",
		"lock-0000000000": "lock-000000000%30", "12345678": "12345678",
		strings.Repeat("a", 200): strings.Repeat("a", 200),
	} {
		if got := coordinator.PathEscape(text); got != want {
			t.Errorf("PathEscape(%q) = %q, want %q", text, got, want)
		}
	}
	for _, c := range []string{"", "a/b", "ü", "%zz", "%61", "locks", "lock-0000000000", "%2e", strings.Repeat("a", 201)} {
		if text, err := coordinator.PathUnescape(c); !errors.Is(err, coordinator.ErrPath) {
			t.Errorf("PathUnescape(%.20q) = %q, %v; want ErrPath", c, text, err)
		}
	}
}

// FuzzPathEscape: every text has a component of its own, which no library takes for a
// contender.
func FuzzPathEscape(f *testing.F) {
	for _, text := range awkward() {
		f.Add(text, text+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if ca, cb := wantComponent(t, a), wantComponent(t, b); (ca == cb) != (a == b) {
			t.Errorf("%q and %q become %q and %q", a, b, ca, cb)
		}
	})
}
