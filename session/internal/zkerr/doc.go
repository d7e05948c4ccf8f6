// Package zkerr says what an error of the client means for a request: it was executed, or it was not, or nobody knows.
package zkerr
