# shellcheck shell=bash
# Kafka: one broker that is its own controller.

KAFKA_VERSION=4.3.1

kafka_ports() {
  echo "$(port_at 11) $(port_at 12)"
}

kafka_jars() {
  install_jars kafka "60 MB" \
    "org.apache.kafka:kafka_2.13:$KAFKA_VERSION" \
    "org.apache.kafka:kafka-tools:$KAFKA_VERSION" \
    org.apache.logging.log4j:log4j-slf4j-impl:2.25.4
}

# Replication of one, since there is one broker; few partitions for the internal
# topics, since each costs files and start-up time; short sessions, since tests wait
# for them to end. The data folder is named from the home, where Kafka is started:
# this setting is a list, so a comma in a full path would end it.
write_kafka_properties() {
  local broker controller
  read -r broker controller <<<"$(kafka_ports)"
  write_file "$1/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$broker,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$broker,CONTROLLER://127.0.0.1:$controller
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=data
num.partitions=1
auto.create.topics.enable=true
offsets.topic.num.partitions=5
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=1000
PROPERTIES
}

# kafka_java OPTION...: the java command with what each of Kafka's programs needs;
# words end with a NUL. It is for running in the home.
kafka_java() {
  printf '%s\0' "$(find_java)" -Dlog4j2.configurationFile=log4j2.properties \
    -cp "$(jars_dir kafka)/*" "$@"
}

kafka_prepare() {
  local home java
  home=$(home_of kafka)
  kafka_jars
  write_log4j "$home/log4j2.properties"
  write_kafka_properties "$home"
  mapfile -d '' java < <(kafka_java -Xmx256m)
  make_data kafka "${java[@]}" kafka.tools.StorageTool format --standalone \
    -t "$(kafka_cluster_id)" -c server.properties
}

# Kafka's ids are 16 bytes in URL-safe base64 without padding; one that began with
# '-' would be taken for an option.
kafka_cluster_id() {
  echo "L$(head -c 32 /dev/urandom | base64 | tr -dc 'A-Za-z0-9' | head -c 20)A"
}

kafka_start() {
  local java
  mapfile -d '' java < <(kafka_java -Xms512m -Xmx512m)
  spawn kafka "${java[@]}" kafka.Kafka server.properties
}

# The listener opens before the broker serves, so it is asked something: which
# versions of the protocol it speaks (api 18, version 0, correlation 1, no client).
# A request of ten bytes; the answer's correlation follows its length.
kafka_ready() {
  local broker answer
  broker=$(kafka_ports)
  answer=$(ask "${broker%% *}" \
    '\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff' 8 | od -An -tx1)
  [[ $answer == *"00 00 00 01" ]]
}
