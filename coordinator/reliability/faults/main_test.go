package faults

import (
	"flag"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
)

func TestMain(m *testing.M) {
	child.Job(transferVariable, transferAll) // returns unless this process is a child
	// These tests wait most of the time, so three of them share two cores, except when
	// times are measured.
	if at := flag.Lookup("test.parallel"); at != nil {
		if err := at.Value.Set(fmt.Sprint(reliability.Trials(3, 3, 2))); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
