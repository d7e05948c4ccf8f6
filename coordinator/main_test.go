package coordinator_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
)

func TestMain(m *testing.M) { coordtest.Main(m) }

// lockPath is the lock that most tests fight for.
const lockPath = coordtest.LockPath

func TestAcquireDialogues(t *testing.T) { coordtest.Play(t, "testdata/acquire") }

func TestLossDialogues(t *testing.T) { coordtest.Play(t, "testdata/loss") }

func TestCloseDialogues(t *testing.T) { coordtest.Play(t, "testdata/close") }

func TestReentryDialogues(t *testing.T) { coordtest.Play(t, "testdata/reentry") }

func TestCrashDialogues(t *testing.T) { coordtest.Play(t, "testdata/crash") }

func TestRevokeDialogues(t *testing.T) { coordtest.Play(t, "testdata/revoke") }
