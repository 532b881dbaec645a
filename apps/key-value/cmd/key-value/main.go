// Command key-value is the service, and the tasks that make and check its data.
package main

import (
	"tailor/apps/common/service"
	"tailor/apps/key-value/internal/role"
)

func main() {
	service.Main("key-value", map[string]service.Role{role.Name: role.New}, role.Tasks())
}
