# shellcheck shell=bash
# What the Cargo.toml files say of features. Read by awk, since a new machine need not
# have a reader of TOML or JSON; so a key has to stand at the start of its line.

# The folders below the root with a package that has features.
crates_with_features() {
  local manifest
  for manifest in */Cargo.toml; do
    if [[ -n $(features_of "${manifest%/*}") ]]; then echo "${manifest%/*}"; fi
  done
}

# features_of FOLDER: all but the default, one a line.
features_of() {
  awk -F'[ =]' '
    /^\[/ { table = $1 }
    table == "[features]" && /^[a-z]/ && $1 != "default" { print $1 }
  ' "$1/Cargo.toml"
}

# mechanisms_of FOLDER: the features that bring another of our crates.
mechanisms_of() {
  awk -F'[ =]' '
    /^\[/ { table = $1 }
    /^[a-z]/ { feature = $1 }
    table == "[features]" && /"dep:leastlock-/ { print feature }
  ' "$1/Cargo.toml"
}

# engines_of FOLDER: the features that are no mechanisms.
engines_of() {
  comm -23 <(features_of "$1" | sort) <(mechanisms_of "$1" | sort)
}

package_of() {
  awk -F'"' '
    /^\[/ { table = $0 }
    table == "[package]" && /^name *=/ { print $2 }
  ' "$1/Cargo.toml"
}

is_published() {
  ! grep -q '^publish = false' "$1/Cargo.toml"
}
