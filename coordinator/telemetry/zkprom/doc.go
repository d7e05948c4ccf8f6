// Package zkprom exports what a coordinator's locks do as Prometheus metrics.
package zkprom
