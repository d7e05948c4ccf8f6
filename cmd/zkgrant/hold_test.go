//go:build unix

package main

import (
	"os"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// If the lock is lost, hold ends with the code of a loss.
func TestHoldIsToldOfALoss(t *testing.T) {
	server := zktest.Start(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	hold := beginWith(t, in, nil, "hold", "--servers", server.Addr(), lockPath)
	eventstest.Check(t, in.Close())
	hold.Await(t, "granted", 1)
	expire(t, server)
	hold.Exits(codeLost)
	eventstest.Check(t, out.Close())
	hold.Must(t, "LOST "+lockPath+": session expired")
}

// If standard input ends, hold stops waiting for the lock.
func TestHoldWithdrawsAtTheEndOfStandardInput(t *testing.T) {
	server := zktest.Start(t)
	first := locked(t, server, nil, "wait")
	ready(t, first, "command")
	hold := begin(t, "", "hold", "--servers", server.Addr(), lockPath)
	hold.Exits(codeTaken)
	nodes(t, server, 1, "when the waiter's standard input has ended")
}

// With --again elect campaigns anew after a loss.
func TestElectAgain(t *testing.T) {
	server := zktest.Start(t)
	elect := begin(t, "", append([]string{"elect", "--again", "--servers", server.Addr(), lockPath}, commandLine("wait")...)...)
	ready(t, elect, "command")
	expire(t, server)
	elect.Await(t, "ready", 2)
	elect.Send(syscall.SIGUSR2)
	elect.Exits(5)
}

// A command that exits by itself with the code of a loss has ended all the same.
func TestElectAgainEndsWithTheCommand(t *testing.T) {
	begin(t, "", append([]string{"elect", "--again", "--servers", zktest.Start(t).Addr(), lockPath}, commandLine("exit", "123")...)...).Exits(codeLost)
}
