package events_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// The digits of the number follow the marks and end the next group.
func TestPermitsAreReadWhereTheMarkSaysSo(t *testing.T) {
	for node, want := range map[string]int{
		"_c_4f1c0a52-7c39-8203-9a00-d2b1c5a7e9f0-lock-0000000007":               0x300,
		"_c_4f1c0a52-7c39-8300-ba05-d2b1c5a7e9f0-lock-0000000007":               5,
		"/a/leases/_c_4f1c0a52-7c39-82ff-9aff-d2b1c5a7e9f0-1f-lease-0000000007": 0xffff,
		"_c_4f1c0a52-7c39-8103-9a00-d2b1c5a7e9f0-lock-0000000007":               0, // without the mark
		"_c_4f1c0a52-7c39-4203-9a00-d2b1c5a7e9f0-lock-0000000007":               0, // Curator's
		"4f1c0a527c39820eaa3cd2b1c5a7e9f0__lock__0000000010":                    0, // kazoo has no such semaphore
		"lock-0000000000": 0, "": 0,
	} {
		eventstest.Equal(t, events.PermitsOf(node), want, "PermitsOf(%q)", node)
	}
}

func TestMarksTellOurNodesFromOthers(t *testing.T) {
	for _, c := range []struct {
		node  string
		ours  bool
		marks events.Marks
	}{
		{"_c_4f1c0a52-7c39-800e-9a3c-d2b1c5a7e9f0-lock-0000000007", true, 0},
		{"_c_4f1c0a52-7c39-8f0e-8a3c-d2b1c5a7e9f0-__READ__0000000007", true, 15},
		{"/locks/a/leases/_c_4f1c0a52-7c39-810e-ba3c-d2b1c5a7e9f0-lease-0000000007", true, 1},
		{"4f1c0a527c39820eaa3cd2b1c5a7e9f0__lock__0000000010", true, 2},
		{"_c_" + uuid + "-lock-0000000007", false, 0},                           // Curator: version 4
		{"4f1c0a527c394a0e9a3cd2b1c5a7e9f0__lock__0000000010", false, 0},        // kazoo
		{"_c_4f1c0a527c39800e9a3cd2b1c5a7e9f0-lock-0000000008", false, 0},       // go-zookeeper: no version, and no hyphens
		{"_c_4f1c0a52-7c39-800e-ca3c-d2b1c5a7e9f0-lock-0000000007", false, 0},   // another variant
		{"_c_4f1c0a52-7c39-800e-9a3c-d2b1c5a7e9f-lock-0000000007", false, 0},    // too short
		{"x_c_4f1c0a52-7c39-800e-9a3c-d2b1c5a7e9f0-lock-0000000007", false, 0},  // not at the beginning
		{"/_c_4f1c0a52-7c39-800e-9a3c-d2b1c5a7e9f0-lock-1/lock-0001", false, 0}, // the directory's GUID
		{"_c_4F1C0A52-7C39-800E-9A3C-D2B1C5A7E9F0-lock-0000000007", false, 0},   // not as we write it
		{"lock-0000000000", false, 0}, {"", false, 0}, {"x-1-0000000001", false, 0},
	} {
		marks, ours := events.MarksOf(c.node)
		eventstest.Expect(t, ours == c.ours && marks == c.marks,
			"MarksOf(%q) = %v, %v; want %v, %v", c.node, marks, ours, c.marks, c.ours)
	}
}
