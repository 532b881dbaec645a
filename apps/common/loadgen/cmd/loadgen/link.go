package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

const (
	peerPort   = 7213
	roundTrips = 300
	sendTime   = 500 * time.Millisecond
	part       = 64 << 10
)

// A connection to a peer begins with one byte that says what it does.
const (
	echoes = 'e' // sends back every byte
	takes  = 't' // reads bytes until the sender is done, then tells how many they were, in 8 bytes
)

// peer answers other nodes' links until a signal.
func peer() error {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", peerPort))
	if err != nil {
		return err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(connection)
		}
	}()
	hold()
	return listener.Close()
}

func answer(connection net.Conn) {
	defer connection.Close()
	kind := make([]byte, 1)
	if _, err := io.ReadFull(connection, kind); err != nil {
		return
	}
	switch kind[0] {
	case echoes:
		buffer := make([]byte, 1)
		for {
			if _, err := io.ReadFull(connection, buffer); err != nil {
				return
			}
			if _, err := connection.Write(buffer); err != nil {
				return
			}
		}
	case takes:
		taken, _ := io.Copy(io.Discard, connection)
		binary.Write(connection, binary.BigEndian, taken)
	}
}

// link measures the way to a peer, and prints the median round trip of a byte and the bytes that go through.
func link(host string) error {
	address := net.JoinHostPort(host, fmt.Sprint(peerPort))
	times, err := roundTripTimes(address)
	if err != nil {
		return err
	}
	bytesPerSecond, err := throughput(address)
	if err != nil {
		return err
	}
	slices.Sort(times)
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"rtt_us": float64(times[len(times)/2].Nanoseconds()) / 1e3,
		"mbps":   bytesPerSecond * 8 / 1e6,
	})
}

func roundTripTimes(address string) ([]time.Duration, error) {
	connection, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(10 * time.Second))
	buffer := []byte{echoes}
	if _, err := connection.Write(buffer); err != nil {
		return nil, err
	}
	times := make([]time.Duration, 0, roundTrips)
	for range roundTrips {
		began := time.Now()
		if _, err := connection.Write(buffer); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(connection, buffer); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// throughput sends for a while, and returns the bytes a second that arrived: the peer tells how many.
func throughput(address string) (float64, error) {
	connection, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(sendTime + 10*time.Second))
	if _, err := connection.Write([]byte{takes}); err != nil {
		return 0, err
	}
	buffer := make([]byte, part)
	began := time.Now()
	for time.Since(began) < sendTime {
		if _, err := connection.Write(buffer); err != nil {
			return 0, err
		}
	}
	if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, err
	}
	var arrived int64
	if err := binary.Read(connection, binary.BigEndian, &arrived); err != nil {
		return 0, err
	}
	return float64(arrived) / time.Since(began).Seconds(), nil
}
