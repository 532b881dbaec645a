package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// prepare does what needs the application before the first request is due: it finds the types of gRPC messages and logs
// the users in.
func (s *sender) prepare(ctx context.Context, events *Events) error {
	defer context.AfterFunc(ctx, s.caller.stop)()
	var err error
	if s.users, err = newUsers(s.workload); err != nil {
		return err
	}
	if len(s.workload.calls()) > 0 {
		if err := s.resolveCalls(ctx); err != nil {
			return err
		}
		if err := s.encodeMessages(); err != nil {
			return err
		}
	}
	if s.workload.users == nil || len(s.workload.users.login) == 0 {
		return nil
	}
	events.phase("login")
	return s.login(ctx)
}

// encodeMessages turns the messages of the schedule into bytes, as far as no reply is needed for them.
func (s *sender) encodeMessages() error {
	for index := range s.requests {
		if err := s.encodeMessage(&s.requests[index]); err != nil {
			return Refusal{fmt.Errorf("%s: grpc.%w", s.workload.Classes[s.requests[index].Class].Name, err)}
		}
	}
	return nil
}

// encodeMessage turns the message of a request into bytes, where it is a call that needs no reply's values.
func (s *sender) encodeMessage(request *Request) error {
	class := s.workload.Classes[request.Class]
	if class.grpc == nil || request.draft != nil {
		return nil
	}
	framed, err := class.grpc.encode(request.Body)
	if err == nil {
		request.Body = string(framed)
	}
	return err
}

// login logs all users in, a bounded number at a time; the first failure ends it.
func (s *sender) login(ctx context.Context) error {
	users := s.workload.users
	end := time.Now().Add(users.limit)
	limited, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	group, running := errgroup.WithContext(limited)
	group.SetLimit(users.concurrency)
	ids := newTraceIDs(len(s.users) * len(users.login))
	begun := 0
	for number, user := range s.users {
		if running.Err() != nil {
			break
		}
		begun++
		group.Go(func() error {
			return s.loginUser(running, user, ids[number*len(users.login):])
		})
	}
	err := group.Wait()
	switch {
	case err == nil && begun == len(s.users):
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted in the log-in")
	case !time.Now().Before(end): // an exchange can notice it before its context does
		return fmt.Errorf("users: not all %d had logged in after %v; allowed: login_limit_s", users.Count, users.limit)
	}
	return err
}

// loginUser performs the steps one after the other.  What they draw stays the same for all of them.  Their traces are not
// sampled: no root span joins them.
func (s *sender) loginUser(ctx context.Context, user *user, ids []traceID) error {
	random := rand.New(rand.NewPCG(s.plan.Seed, streamLogin|uint64(user.number)<<8))
	scope := &scope{random: random, sequence: user.number, user: user.number, values: map[string]string{}}
	for index, step := range s.workload.users.login {
		if err := ctx.Err(); err != nil {
			return err
		}
		request := step.build(s.plan.target.EscapedPath(), scope)
		if step.grpc != nil && request.draft == nil {
			framed, err := step.grpc.encode(request.Body)
			if err != nil {
				return Refusal{fmt.Errorf("users.login[%d] %q: grpc.%w", index, step.Name, err)}
			}
			request.Body = string(framed)
		}
		carried := ids[index].context(s.plan.Propagation, false, "tailor=w")
		deadline := time.Now().Add(s.workload.Timeout)
		if limit, limited := ctx.Deadline(); limited && limit.Before(deadline) {
			deadline = limit
		}
		done := s.caller.perform(ctx, &task{
			class: step, user: user, lane: user.number, carried: carried, deadline: deadline, handed: func() {},
		}, &request)
		if done.reason != "" {
			return fmt.Errorf("users.login[%d] %q of user %d: %s", index, step.Name, user.number, done.text())
		}
	}
	return nil
}

// text is a failure for a person: its reason, the status of the reply, and how that begins.
func (done *outcome) text() string {
	text := done.reason
	if done.status != 0 && text != fmt.Sprintf("status %d", done.status) {
		text += fmt.Sprintf(", status %d", done.status)
	}
	if done.detail != "" {
		text += fmt.Sprintf(": %q", done.detail)
	}
	return text
}
