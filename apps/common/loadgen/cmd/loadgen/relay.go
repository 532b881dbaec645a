package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	dialTimeout = 2 * time.Second
	unusedPort  = "1"
)

// hold waits for a signal: the container's other commands run beside it, by the engine's exec.
func hold() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
}

// relay connects its standard input and output with host:port, until the peer closes.
func relay(address string) error {
	connection, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		io.Copy(connection, os.Stdin)
		connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, connection)
	return err
}

// printThose prints the texts that pass a test, one a line; all are tested at the same time.
func printThose(texts []string, passes func(text string) bool) {
	passed := make([]bool, len(texts))
	var group sync.WaitGroup
	for i, text := range texts {
		group.Add(1)
		go func() {
			defer group.Done()
			passed[i] = passes(text)
		}()
	}
	group.Wait()
	for i, text := range texts {
		if passed[i] {
			fmt.Println(text)
		}
	}
}

// isListening tells whether an address accepts a connection.
func isListening(address string) bool {
	connection, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		return false
	}
	connection.Close()
	return true
}

// isKnown tells whether NAME=ADDRESS,ADDRESS... is so: the name means some of these addresses, and all of them answer.
//
// A name that a network does not know is asked of the machine's own resolver, which may know another machine by it.
func isKnown(text string) bool {
	name, list, _ := strings.Cut(text, "=")
	addresses := strings.Split(list, ",")
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	resolved, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil || len(resolved) == 0 {
		return false
	}
	for _, address := range resolved {
		if !slices.Contains(addresses, address) {
			return false
		}
	}
	return !slices.ContainsFunc(addresses, func(address string) bool { return !answers(address) })
}

// answers tells whether packets go to an address and back: a connection is accepted, or refused, which is as good.
func answers(address string) bool {
	connection, err := net.DialTimeout("tcp", net.JoinHostPort(address, unusedPort), dialTimeout)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	connection.Close()
	return true
}

// counters prints the kernel's counters of the machine that this container runs on.
func counters() error {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			return "" // not every kernel has pressure counters
		}
		return string(text)
	}
	stat, _, _ := strings.Cut(read("/proc/stat"), "\n")
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"boot":     strings.TrimSpace(read("/proc/sys/kernel/random/boot_id")),
		"stat":     stat,
		"pressure": read("/proc/pressure/cpu"),
	})
}

// agent runs the commands of Tailor's own container on an application's network; false: none of them.
func agent(arguments []string) (bool, error) {
	if len(arguments) == 0 {
		return false, nil
	}
	switch name, rest := arguments[0], arguments[1:]; {
	case name == "-hold" && len(rest) == 0:
		hold()
		return true, nil
	case name == "-relay" && len(rest) == 1:
		return true, relay(rest[0])
	case name == "-listening":
		printThose(rest, isListening)
		return true, nil
	case name == "-known":
		printThose(rest, isKnown)
		return true, nil
	case name == "-counters" && len(rest) == 0:
		return true, counters()
	case name == "-peer" && len(rest) == 0:
		return true, peer()
	case name == "-link" && len(rest) == 1:
		return true, link(rest[0])
	}
	return false, nil
}
