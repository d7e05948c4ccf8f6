package faults_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
)

func TestMain(m *testing.M) {
	child.Job(transferVariable, transferAll) // and return if this process is none
	goleak.VerifyTestMain(m)
}
