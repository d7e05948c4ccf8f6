package session

import (
	"bytes"
	"testing"
	"time"
)

// TestARecordIsRead as it was written, whatever the data are, and what is not understood is left out.
func TestARecordIsRead(t *testing.T) {
	since := time.Date(2026, 2, 28, 23, 59, 59, 123456789, time.UTC)
	for _, data := range [][]byte{nil, []byte("who"), []byte("\n"), []byte("\n\nnode x\n"), {0, 255}, bytes.Repeat([]byte("x\n"), 1000)} {
		want := holding{node: "_c_0-lock-0000000007", token: 0x7f00000001, since: since, data: data}
		got, ok := parseHolding(want.bytes())
		if !ok || got.node != want.node || got.token != want.token || !got.since.Equal(since) || !bytes.Equal(got.data, data) {
			t.Errorf("with data %q the record reads %+v, %v; want %+v", data, got, ok, want)
		}
	}
	for text, want := range map[string]bool{
		"": false, "zkgrant\n": false, "zkgrant\nfloor 0x7\n": false, "zkgrant holder": false, "ZKGRANT HOLDER\n": false,
		"zkgrant holder\n": true, "zkgrant holder\n\n": true, "zkgrant holder\nnode": true, "zkgrant holder\nmore to come\nnode n": true,
	} {
		if _, ok := parseHolding([]byte(text)); ok != want {
			t.Errorf("%q is a record: %v, want %v", text, ok, want)
		}
	}
}

// FuzzRecord: whatever stands there is read, or is no record.
func FuzzRecord(f *testing.F) {
	f.Add([]byte("zkgrant holder\nnode n\ntoken 0x7\nsince 2026-02-28T23:59:59Z\n\ndata"))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, ok := parseHolding(text)
		if !ok || first.since.Year() > 9999 {
			return
		}
		again, ok := parseHolding(first.bytes())
		if !ok || again.token != first.token || !bytes.Equal(again.data, first.data) {
			t.Errorf("%+v, written and read again, is %+v; want the same", first, again)
		}
	})
}
