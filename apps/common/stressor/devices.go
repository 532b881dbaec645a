package stressor

import (
	"fmt"
	"io"
	"net"
	"os"
)

const (
	networkBytes = 64 << 10
	blockBytes   = 1 << 20
)

// network sends a piece over a connection of this machine and waits for an answer of the same length: system calls,
// copies and interrupts of the network's code.
type network struct {
	connection net.Conn
	listener   net.Listener
	piece      []byte
}

func newNetwork(bytes int, _ string) (load, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		other, err := listener.Accept()
		if err != nil {
			return // closed before anybody came
		}
		defer other.Close()
		_, _ = io.Copy(other, other) // ends with the connection
	}()
	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		listener.Close()
		return nil, err
	}
	return &network{connection, listener, make([]byte, max(bytes, 1))}, nil
}

func (n *network) step() (float64, error) {
	if _, err := n.connection.Write(n.piece); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(n.connection, n.piece); err != nil {
		return 0, err
	}
	return float64(2 * len(n.piece)), nil
}

func (n *network) close() {
	n.connection.Close()
	n.listener.Close()
}

// block writes pieces to a file and waits until each is on the disk.
type block struct {
	file  *os.File
	piece []byte
	at    int64
}

const blockFile = 64 << 20 // then it begins again

func newBlock(bytes int, directory string) (load, error) {
	file, err := os.CreateTemp(directory, "stressor-*")
	if err != nil {
		return nil, fmt.Errorf("%w (--directory names another place)", err)
	}
	// Nothing is left whatever ends the process.
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	return &block{file: file, piece: make([]byte, max(bytes, 1))}, nil
}

func (b *block) step() (float64, error) {
	if _, err := b.file.WriteAt(b.piece, b.at); err != nil {
		return 0, err
	}
	if err := b.file.Sync(); err != nil {
		return 0, err
	}
	b.at = (b.at + int64(len(b.piece))) % blockFile
	return float64(len(b.piece)), nil
}

func (b *block) close() { b.file.Close() }
