package loadgen

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	// Files that descriptors often import and servers do not always deliver.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// Refusal is a fault of the plan that shows only once the application is asked.
type Refusal struct{ error }

func (r Refusal) Unwrap() error { return r.error }

// descriptors are the files that describe messages and services, by name.
type descriptors map[string]*descriptorpb.FileDescriptorProto

const maxDescriptorFiles = 2_000

// readDescriptors reads a FileDescriptorSet, which protoc writes with --descriptor_set_out and --include_imports.
func readDescriptors(data []byte) (descriptors, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil || len(set.File) == 0 {
		return nil, errors.New("not a FileDescriptorSet; allowed: what protoc writes with --descriptor_set_out and --include_imports")
	}
	files := descriptors{}
	for _, file := range set.File {
		files[file.GetName()] = file
	}
	return files, nil
}

// missing is the imports that are not there, in the order of their names.
func (files descriptors) missing() []string {
	wanted := map[string]bool{}
	for _, file := range files {
		for _, name := range file.GetDependency() {
			if files[name] == nil {
				wanted[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(wanted))
}

// addKnown adds an import that every program with protobuf has; false where it is another one.
func (files descriptors) addKnown(name string) bool {
	known, err := protoregistry.GlobalFiles.FindFileByPath(name)
	if err == nil {
		files[name] = protodesc.ToFileDescriptorProto(known)
	}
	return err == nil
}

// registry links the files.
func (files descriptors) registry() (*protoregistry.Files, error) {
	for missing := files.missing(); len(missing) > 0; missing = files.missing() {
		for _, name := range missing {
			if !files.addKnown(name) {
				return nil, fmt.Errorf("the import %s is missing; allowed: descriptors with all imports (protoc --include_imports)", name)
			}
		}
	}
	set := &descriptorpb.FileDescriptorSet{File: slices.Collect(maps.Values(files))}
	registry, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	return registry, nil
}

// resolve finds the types of a call's messages.
func (call *grpcCall) resolve(registry *protoregistry.Files) error {
	described, err := registry.FindDescriptorByName(call.service)
	service, is := described.(protoreflect.ServiceDescriptor)
	if err != nil || !is {
		return fmt.Errorf("there is no service %s", call.service)
	}
	method := service.Methods().ByName(call.method)
	if method == nil {
		var names []string
		for index := range service.Methods().Len() {
			names = append(names, string(service.Methods().Get(index).Name()))
		}
		return fmt.Errorf("the service %s has no method %s; it has %v", call.service, call.method, names)
	}
	if method.IsStreamingClient() || method.IsStreamingServer() {
		return fmt.Errorf("%s/%s is a stream; allowed: unary methods", call.service, call.method)
	}
	call.input, call.output, call.types = method.Input(), method.Output(), dynamicpb.NewTypes(registry)
	return nil
}

// calls are the classes with a gRPC call, those of the log-in too.
func (workload *Workload) calls() []*Class {
	classes := slices.Clone(workload.Classes)
	if workload.users != nil {
		classes = append(classes, workload.users.login...)
	}
	return slices.DeleteFunc(classes, func(class *Class) bool { return class.grpc == nil })
}

// resolveCalls finds the types of all messages: in the descriptors that the workload names, else by asking the server.
func (s *sender) resolveCalls(ctx context.Context) error {
	files := s.workload.descriptors
	for _, class := range s.workload.calls() {
		if s.workload.descriptors == nil {
			var err error
			if files, err = s.caller.reflect(ctx, string(class.grpc.service), s.workload.Timeout); err != nil {
				return fmt.Errorf("%s: descriptors of %s: %w", class.Name, class.grpc.service, err)
			}
		}
		registry, err := files.registry()
		if err == nil {
			err = class.grpc.resolve(registry)
		}
		if err != nil {
			return Refusal{fmt.Errorf("%s: grpc.method: %w", class.Name, err)}
		}
	}
	return nil
}

// reflections are the versions of the service that describes a server's services; their messages are the same.
var reflections = []string{
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}

var errNoReflection = Refusal{errors.New("the server does not describe its services (no reflection); allowed: `descriptors: FILE` in workload.yaml")}

// reflect asks the server for the files that describe a service.
func (c *caller) reflect(ctx context.Context, service string, timeout time.Duration) (descriptors, error) {
	for _, path := range reflections {
		files := descriptors{}
		asked := &grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
		}
		offered, err := c.describe(ctx, path, asked, files, timeout)
		if err == nil && !offered {
			continue
		}
		for missing := files.missing(); err == nil && len(missing) > 0; missing = files.missing() {
			asked := &grpc_reflection_v1.ServerReflectionRequest{
				MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileByFilename{FileByFilename: missing[0]},
			}
			if files.addKnown(missing[0]) {
				continue
			}
			_, err = c.describe(ctx, path, asked, files, timeout)
			if err == nil && files[missing[0]] == nil {
				err = Refusal{fmt.Errorf("the server does not deliver %s", missing[0])}
			}
		}
		return files, err
	}
	return nil, errNoReflection
}

// describe asks one question, on a stream of its own; false where this service is not offered.
func (c *caller) describe(
	ctx context.Context, path string, asked *grpc_reflection_v1.ServerReflectionRequest, into descriptors, timeout time.Duration,
) (bool, error) {
	data, err := proto.Marshal(asked)
	if err != nil {
		return false, err
	}
	out := &outgoing{method: http.MethodPost, path: path, host: c.target.Host, headers: grpcHeaders, body: string(frame(data))}
	got, err := c.overStreams(ctx, out, 0, time.Now().Add(timeout), true)
	if err != nil {
		return false, err
	}
	code, message := got.grpcStatus()
	switch {
	case got.status == http.StatusNotFound, code == "UNIMPLEMENTED":
		return false, nil
	case got.status != http.StatusOK, code != codes[0]:
		return false, fmt.Errorf("status %d, grpc %s %s", got.status, code, message)
	}
	data, err = unframe(got.body)
	if err != nil {
		return false, err
	}
	var answer grpc_reflection_v1.ServerReflectionResponse
	if err := proto.Unmarshal(data, &answer); err != nil {
		return false, err
	}
	if problem := answer.GetErrorResponse(); problem != nil {
		return false, Refusal{fmt.Errorf("the server answers: %s", problem.GetErrorMessage())}
	}
	for _, each := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		var file descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(each, &file); err != nil {
			return false, err
		}
		into[file.GetName()] = &file
	}
	if len(into) > maxDescriptorFiles {
		return false, fmt.Errorf("more than %d files", maxDescriptorFiles)
	}
	return true, nil
}

// grpcHeaders are those of every call.
var grpcHeaders = []Header{{"Content-Type", "application/grpc"}, {"Te", "trailers"}}
