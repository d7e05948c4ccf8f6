// Package gocronlock is a distributed locker for the scheduler gocron.
package gocronlock
