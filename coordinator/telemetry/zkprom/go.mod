module github.com/zkgrant/zkgrant/coordinator/telemetry/zkprom

go 1.25.0

require github.com/zkgrant/zkgrant v0.1.0
