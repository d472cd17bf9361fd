#!/usr/bin/env bash
# An agent for Headgate in bash and curl: runs a program for each task, one task at a time.
#
#   agent.sh SERVER AGENT_ID FOLDER        agent.sh http://127.0.0.1:8000 agent-1 ./handlers
#
# FOLDER holds one executable for each task type, named like it. It reads the task's ext (JSON) on standard input and
# prints its result (JSON, or nothing). Exit 0: done; 75: failed, try again; 65: failed for good; anything else: failed,
# the type's policy decides. What it writes to standard error is the task's error_info. A cancelled task gets SIGTERM.
# A key, if the server wants one, is read from HEADGATE_KEY.
set -u -m  # -m: each handler is a process group of its own, and is ended as one
if [[ $# != 3 || ! -d $3 ]]; then
  echo "usage: agent.sh SERVER AGENT_ID FOLDER, where FOLDER is a folder of executables" >&2
  exit 2
fi
server=$1 agent=$2 folder=$3
lease=30 pause=1 stopping= pid= claiming=
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'stopping=1; [ -n "$pid" ] && kill -- "-$pid" 2>/dev/null; [ -n "$claiming" ] && kill "$claiming" 2>/dev/null' TERM INT

# post PATH BODY: the answer goes to $answer, its status to $status (000: there was none).
post() {
  local call
  : >"$work/answer"
  curl -sS -o "$work/answer" -w '%{http_code}' --max-time 90 -H 'Content-Type: application/json' \
    -H @<([ -z "${HEADGATE_KEY:-}" ] || echo "Authorization: Bearer $HEADGATE_KEY") \
    --data-binary @- "$server/api/agents/$agent/$1" <<<"$2" >"$work/status" 2>/dev/null &
  call=$!
  [ "$1" = claim ] && claiming=$call  # a signal ends the wait for new tasks
  while kill -0 "$call" 2>/dev/null; do
    if [[ -n $stopping && -n $claiming ]]; then
      kill "$call" 2>/dev/null  # again and again: while it is being started it hears nothing
      sleep 0.1
    else
      wait "$call"
    fi
  done
  claiming= status= answer=
  # Without $( ): a signal that comes while bash works on one is lost.
  read -r status <"$work/status"
  IFS= read -rd '' answer <"$work/answer"
  status=${status:-000}
}

# surely PATH BODY: post again and again, later each time, until the server has answered.
surely() {
  while post "$1" "$2"; [[ $status == 000 || $status == 429 || $status == 5* ]]; do
    [ -n "$stopping" ] && [ "$1" = claim ] && return
    echo "$1: $status $answer; trying again in about $pause s" >&2
    sleep "$((RANDOM % pause)).$((RANDOM % 10))"
    pause=$((pause < 16 ? pause * 2 : 30))
  done
  pause=1
  [ "$status" = 200 ] || echo "$1: $status $answer" >&2
}

# quoted: standard input as a JSON text.
quoted() {
  printf '"%s"' "$(tail -c 8000 | iconv -c -f utf-8 -t utf-8 | tr -d '\000-\010\013-\037' |
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/\\t/g' | awk '{ printf "%s%s", (NR > 1 ? "\\n" : ""), $0 }')"
}

# What a claim of one task is answered with; the fields come in this order.
shape='^\{"tasks":\[\{"id":([0-9]+),"exec_id":"([^"]+)","executing_deadline":"[^"]*","status":"([a-z]+)",'
shape+='"type":"([^"]+)","ext":(.*),"attempt":[0-9]+,"error_count":'

# run_task ID EXEC_ID STATUS TYPE EXT
run_task() {
  local id=$1 exec_id=$2 state=$3 type=$4 ext=$5 next asked=none code
  local own="\"exec_id\":\"$exec_id\"" at="tasks/$id"
  if [ "$state" = scheduling ]; then  # assigned to this agent: the start is to be confirmed
    surely "$at/start" "{$own}"
    [ "$status" = 200 ] || return
  fi
  "$folder/$type" <<<"$ext" >"$work/result" 2>"$work/error" &
  pid=$! next=$((SECONDS + lease / 6))
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.1
    if ((SECONDS >= next)); then
      next=$((SECONDS + lease / 6))
      post "$at/beat" "{$own}"
      [[ $status == 409 || $status == 404 ]] && asked=gone  # the task is somebody else's by now
      [[ $answer == *'"control":"cancel"'* ]] && asked=cancelled
      [ "$asked" = none ] || kill -- "-$pid" 2>/dev/null
    fi
  done
  wait "$pid"
  code=$? pid=
  if [ "$asked" = gone ]; then
    return
  elif [ "$asked" = cancelled ]; then
    surely "$at/cancelled" "{$own}"
  elif [ -n "$stopping" ] && ((code != 0)); then
    surely "$at/release" "{$own}"
  elif ((code == 0)); then
    surely "$at/complete" "{$own,\"result\":$(grep . "$work/result" || echo null)}"
    [[ $status == 400 || $status == 422 ]] || return  # the result is no JSON, or too large
    surely "$at/fail" "{$own,\"retryable\":false,\"error_info\":$(quoted <"$work/answer")}"
  else
    local retryable=null
    ((code == 75)) && retryable=true
    ((code == 65)) && retryable=false
    surely "$at/fail" "{$own,\"retryable\":$retryable,\"error_info\":$({ cat "$work/error"; echo "exit code $code"; } | quoted)}"
  fi
}

types=$(cd "$folder" && for each in *; do printf ',"%s"' "$each"; done)
while [ -z "$stopping" ]; do
  # The same claim_id until there is an answer: tasks whose hand-over got lost are handed over again.
  surely claim "{\"types\":[${types#,}],\"wait_seconds\":20,\"lease_seconds\":$lease,\"instance\":\"$$\",\"claim_id\":\"$$-$RANDOM$RANDOM$RANDOM\"}"
  if [[ $status == 200 && $answer =~ $shape ]]; then
    run_task "${BASH_REMATCH[@]:1:5}"
  elif [[ $status != 200 && -z $stopping ]]; then
    exit 1
  fi
done
exit 0
