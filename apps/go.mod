module tailor/apps

go 1.24
