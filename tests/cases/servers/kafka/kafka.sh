#!/bin/bash
# Stands for the scripts of /opt/kafka/bin and for /etc/kafka/docker/run, by the name that it is called by.
run() { java $KAFKA_HEAP_OPTS $KAFKA_OPTS -cp "/opt/kafka/libs/*" "$@"; }
start() { exec java ${KAFKA_HEAP_OPTS:--Xmx1G -Xms1G} $KAFKA_OPTS -cp "/opt/kafka/libs/*" kafka.Kafka "$@"; }
: "${KAFKA_HEAP_OPTS:=}"
case ${0##*/} in
  kafka-configs.sh) KAFKA_HEAP_OPTS=${KAFKA_HEAP_OPTS:--Xmx256M}; run kafka.admin.ConfigCommand "$@" ;;
  kafka-server-start.sh) start "$@" ;;
  run)
    export CLUSTER_ID=${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}
    : "${KAFKA_PROCESS_ROLES:?this stand-in has no default settings}"
    run kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker \
      --mounted-configs-dir /mnt/shared/config --final-configs-dir /opt/kafka/config || exit
    start /opt/kafka/config/server.properties ;;
  *) run "$@" ;;
esac
