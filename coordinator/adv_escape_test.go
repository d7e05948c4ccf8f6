package coordinator_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

func TestAdvPathEscape(t *testing.T) {
	parts := []string{"", ".", "..", "zookeeper", "lock-0000000000", "-000000001", "0123456789", "%", "%2E", "%~", "~", "leases", "locks", "size", "/", "\x00", "\xff", "é", "\u200b", "\ufeff", "+", " ", "a", "_c_", "-lock-", "__lock__", "__READ__", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ééééééééééééééééééééééééééééééé", session.RecordSuffix, "quota", "config", ".crashed", "\u2028", "\ud7ff", "\ue000", "\U000f0000", "permits", "%72", "1", "0", "-"}
	seen := map[string]string{}
	for range 400000 {
		var b strings.Builder
		for range rand.IntN(6) {
			b.WriteString(parts[rand.IntN(len(parts))])
		}
		x := b.String()
		c := coordinator.PathEscape(x)
		if other, ok := seen[c]; ok && other != x {
			t.Fatalf("%q and %q become %q", x, other, c)
		}
		seen[c] = x
		_, contends := events.ParseName(c)
		if len(c) < 1 || len(c) > 200 || contends || strings.ContainsAny(c, "/\x00") || c == "." || c == ".." || c == "zookeeper" || strings.HasSuffix(c, session.RecordSuffix) || session.InnerOf("/x/"+c) != "" || session.ValidatePath("/"+c) != nil || session.ValidateNew("/"+c, true) != nil || session.ValidateNew("/"+c, false) != nil {
			t.Fatalf("%q becomes %q", x, c)
		}
		back, err := coordinator.PathUnescape(c)
		if strings.Contains(c, "%~") != (err != nil) || err == nil && back != x {
			t.Fatalf("%q becomes %q, and back %q, %v", x, c, back, err)
		}
		if coordinator.PathEscape(c) == c && strings.Contains(c, "%") {
			t.Fatalf("fixed point %q", c)
		}
	}
}
