# shellcheck shell=bash
# A Java runtime, and jars by Maven with whatever settings the machine has for it.

MIN_JAVA=17

# The major version of the runtime in a folder, without the wait for a JVM.
java_major() {
  local version
  version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release" 2>/dev/null) || true
  echo "${version:-0}"
}

find_java() {
  local home path
  path=$(readlink -f "$(command -v java)" 2>/dev/null) || true
  for home in "${JAVA_HOME:-}" "${path%/bin/java}" /usr/lib/jvm/*; do
    if [[ -x $home/bin/java ]] && (($(java_major "$home") >= MIN_JAVA)); then
      echo "$home/bin/java"
      return
    fi
  done
  return 1
}

jars_dir() {
  case $1 in
    kafka) echo "$SERVICES_DIR/jars-kafka-$KAFKA_VERSION" ;;
    zookeeper) echo "$SERVICES_DIR/jars-zookeeper-$ZOOKEEPER_VERSION" ;;
  esac
}

has_jars() {
  [[ -d $(jars_dir "$1") ]]
}

# install_jars WHAT SIZE GROUP:ARTIFACT:VERSION...: those jars and what they depend
# on. The folder gets its name last, so one half filled is never used.
install_jars() {
  local what=$1 size=$2 jars
  shift 2
  has_jars "$what" && return
  jars=$(jars_dir "$what")
  say "$what: installing jars (once, ~$size)"
  rm -rf "$jars.new"
  mkdir -p "$jars.new"
  write_pom "$@" >"$jars.new/pom.xml"
  if ! timeout 600 mvn -q -B -f "$jars.new/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$jars.new" >"$SERVICES_DIR/mvn-$what.log" 2>&1 </dev/null; then
    tail -n 20 "$SERVICES_DIR/mvn-$what.log" >&2
    die "$what: Maven could not fetch the jars (its log: $SERVICES_DIR/mvn-$what.log)"
  fi
  mv "$jars.new" "$jars"
}

write_pom() {
  local coordinates group artifact version
  cat <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>leastlock</groupId>
  <artifactId>services</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
POM
  for coordinates in "$@"; do
    IFS=: read -r group artifact version <<<"$coordinates"
    cat <<POM
    <dependency>
      <groupId>$group</groupId>
      <artifactId>$artifact</artifactId>
      <version>$version</version>
    </dependency>
POM
  done
  echo '  </dependencies>'
  echo '</project>'
}

# Warnings and errors, to the server's log: both servers write pages at INFO.
write_log4j() {
  write_file "$1" <<'LOG4J'
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
LOG4J
}
