#!/bin/sh
# Makes the database and its user at the first start, then becomes the server.
set -eu
if [ ! -d /var/lib/mysql/mysql ]; then
    mariadb-install-db --user=mysql --skip-test-db > /dev/null
    cat > /tmp/first.sql <<SQL
CREATE DATABASE $MARIADB_DATABASE;
CREATE USER '$MARIADB_USER'@'%' IDENTIFIED BY '$MARIADB_PASSWORD';
GRANT ALL ON $MARIADB_DATABASE.* TO '$MARIADB_USER'@'%';
SQL
    set -- "$@" --init-file=/tmp/first.sql
fi
exec "$@"
