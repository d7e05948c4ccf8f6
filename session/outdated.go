package session

import "github.com/zkgrant/zkgrant/recipes"

// This file is about an answer that has come on one connection, and reaches the session behind the news of the next one. The goroutine
// of its request was not scheduled in between:
//
//  1. A create is answered: nobody else is in the queue. A claim is answered: the node is there.
//  2. The connection is lost, and somebody removes the node.
//  3. The session is resumed. All are told, and verify what they know.
//  4. Only now the answer of 1 is settled. It was right, and nobody would verify it any more.
//
// So the session counts its connections, and an answer that was asked for on an earlier one is as good as lost: the machine is told
// Unknown, and asks again. Answers that stay true pass. An answer that comes before 3 passes, too: it is verified by what follows.

// lasts tells whether what the answer says stays true.
func lasts(in recipes.Input) bool {
	switch in.(type) {
	case recipes.Refused, recipes.Deleted, recipes.Gone, recipes.Taken:
		return true
	default:
		return false
	}
}
