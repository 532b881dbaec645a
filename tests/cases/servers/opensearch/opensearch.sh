#!/bin/bash
exec java -Xms1g -Xmx1g $OPENSEARCH_JAVA_OPTS -cp "lib:lib/*" Server
