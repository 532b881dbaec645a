package loadgen

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// grpcDocument is a unary call: a message in, a message out.
type grpcDocument struct {
	Method   string            `json:"method"` // package.Service/Method
	Message  json.RawMessage   `json:"message"`
	Metadata map[string]string `json:"metadata"`
}

// grpcCall is a compiled call.  Its messages' types are known once its method was resolved.
type grpcCall struct {
	service protoreflect.FullName
	method  protoreflect.Name
	message []messagePart
	code    string // of a good reply
	input   protoreflect.MessageDescriptor
	output  protoreflect.MessageDescriptor
	types   *dynamicpb.Types
}

// messagePart is JSON text, or a template that becomes a JSON string.
type messagePart struct {
	json  string
	value *template
}

const (
	reasonMessage    = "message does not fit its type"
	reasonNoStatus   = "reply without a gRPC status"
	frameHeader      = 5 // whether it is compressed, and the length of the message
	defaultStreams   = 8
	maxStreams       = 1_000
	allowedCallNames = "allowed: package.Service/Method"
)

// codes are gRPC's, by their numbers.
var codes = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

var (
	callName     = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)/([A-Za-z_][A-Za-z0-9_]*)$`)
	metadataName = regexp.MustCompile(`^[a-z0-9_.-]+$`)
)

func compileCall(raw *grpcDocument, variables map[string]variable) (*grpcCall, error) {
	match := callName.FindStringSubmatch(raw.Method)
	if match == nil {
		return nil, fmt.Errorf("method: found %q; %s", raw.Method, allowedCallNames)
	}
	for name := range raw.Metadata {
		if !metadataName.MatchString(name) || strings.HasPrefix(name, "grpc-") || strings.HasSuffix(name, "-bin") ||
			name == "te" || name == "content-type" {
			return nil, fmt.Errorf("metadata.%s: allowed: small letters, digits, - _ .; not grpc-..., ...-bin, te, content-type", name)
		}
	}
	call := &grpcCall{service: protoreflect.FullName(match[1]), method: protoreflect.Name(match[2]), code: codes[0]}
	message := raw.Message
	if len(message) == 0 {
		message = []byte("{}")
	}
	decoder := json.NewDecoder(bytes.NewReader(message))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil || value == nil {
		return nil, fmt.Errorf("message: found %.80s; allowed: a JSON object", message)
	}
	err := call.add(value, variables)
	return call, err
}

// add appends a value of the message.  Every text in it is a template; keys are not.
func (call *grpcCall) add(value any, variables map[string]variable) error {
	switch value := value.(type) {
	case string:
		compiled, err := compileTemplate(value, variables)
		if err != nil {
			return fmt.Errorf("message: %w", err)
		}
		call.message = append(call.message, messagePart{value: &compiled})
	case []any:
		call.literal("[")
		for index, element := range value {
			if index > 0 {
				call.literal(",")
			}
			if err := call.add(element, variables); err != nil {
				return err
			}
		}
		call.literal("]")
	case map[string]any:
		call.literal("{")
		// Draws must not depend on a map's order.
		for index, name := range slices.Sorted(maps.Keys(value)) {
			if index > 0 {
				call.literal(",")
			}
			call.literal(quoted(name) + ":")
			if err := call.add(value[name], variables); err != nil {
				return err
			}
		}
		call.literal("}")
	default:
		data, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("message: %w", err)
		}
		call.literal(string(data))
	}
	return nil
}

// expect compiles what a good reply looks like, and its code.
func (call *grpcCall) expect(raw *expectDocument) (Expect, error) {
	if raw == nil {
		return compileExpect(nil)
	}
	if raw.Status != nil || raw.MinItems != nil {
		return Expect{}, fmt.Errorf("expect: status and min_items do not belong to grpc; allowed: code, body")
	}
	if raw.Code != nil {
		if !slices.Contains(codes, *raw.Code) {
			return Expect{}, fmt.Errorf("expect.code: found %q; allowed: %s", *raw.Code, strings.Join(codes, ", "))
		}
		call.code = *raw.Code
	}
	return compileExpect(&expectDocument{Body: raw.Body})
}

func (call *grpcCall) literal(text string) {
	call.message = append(call.message, messagePart{json: text})
}

func (call *grpcCall) needsReplies() bool {
	return slices.ContainsFunc(call.message, func(part messagePart) bool {
		return part.value != nil && part.value.needsReplies()
	})
}

// text is the message of a request as JSON.
func (call *grpcCall) text(scope *scope) string {
	var out strings.Builder
	for _, part := range call.message {
		if part.value == nil {
			out.WriteString(part.json)
		} else {
			out.WriteString(quoted(part.value.text(scope)))
		}
	}
	return out.String()
}

// encode turns a message's JSON into the frame that goes over the connection.
func (call *grpcCall) encode(text string) ([]byte, error) {
	message := dynamicpb.NewMessage(call.input)
	if err := (protojson.UnmarshalOptions{Resolver: call.types}).Unmarshal([]byte(text), message); err != nil {
		return nil, fmt.Errorf("message of %s: %w", call.input.FullName(), err)
	}
	data, err := proto.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("message of %s: %w", call.input.FullName(), err)
	}
	return frame(data), nil
}

// frame puts a message into gRPC's framing over HTTP/2: not compressed, its length, itself.
func frame(message []byte) []byte {
	framed := make([]byte, frameHeader, frameHeader+len(message))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(message)))
	return append(framed, message...)
}

var errFrame = errors.New("not a single gRPC message that is not compressed")

// unframe is the message of a reply to a unary call.
func unframe(body []byte) ([]byte, error) {
	if len(body) < frameHeader || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-frameHeader {
		return nil, errFrame
	}
	return body[frameHeader:], nil
}

// status is a reply's code and message; the code is "" where there is none.  A reply without a message has both in its
// header.
func (got *reply) grpcStatus() (code, message string) {
	from := got.trailer
	if from.Get("Grpc-Status") == "" {
		from = got.header
	}
	number, err := strconv.Atoi(from.Get("Grpc-Status"))
	if err != nil || number < 0 {
		return "", ""
	}
	message, err = url.PathUnescape(from.Get("Grpc-Message"))
	if err != nil {
		message = from.Get("Grpc-Message")
	}
	if number >= len(codes) {
		return strconv.Itoa(number), message
	}
	return codes[number], message
}

// judge returns why a complete reply is not good, or "".  It replaces the reply's body by its message as JSON where that
// is needed.
func (call *grpcCall) judge(got *reply, expect *Expect) (reason, detail string) {
	if got.status != http.StatusOK {
		return fmt.Sprintf("status %d", got.status), ""
	}
	code, message := got.grpcStatus()
	if code == "" {
		return reasonNoStatus, ""
	}
	if code != call.code {
		return "grpc " + code, message
	}
	if code != codes[0] || got.body == nil {
		return "", ""
	}
	data, err := unframe(got.body)
	if err != nil {
		return reasonUnreadable, err.Error()
	}
	decoded := dynamicpb.NewMessage(call.output)
	if err := (proto.UnmarshalOptions{Resolver: call.types}).Unmarshal(data, decoded); err != nil {
		return reasonUnreadable, err.Error()
	}
	text, err := (protojson.MarshalOptions{Resolver: call.types, EmitDefaultValues: true}).Marshal(decoded)
	if err != nil {
		return reasonUnreadable, err.Error()
	}
	var compact bytes.Buffer // protojson varies its white space on purpose
	if err := json.Compact(&compact, text); err != nil {
		return reasonUnreadable, err.Error()
	}
	got.body = compact.Bytes()
	if expect.Body != nil && !expect.Body.Match(got.body) {
		return reasonBody, ""
	}
	return "", ""
}
