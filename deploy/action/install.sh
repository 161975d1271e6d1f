#!/usr/bin/env bash
# Installs handrail from the action's own checkout, into an environment outside the workspace.
set -euo pipefail

refuse() {
  echo "handrail: $1" >&2
  exit 2
}

# Building and installing runs code of packages. It gets these variables, and no keys or tokens.
kept=()
while read -r name; do
  case $name in
    PATH | HOME | LANG | LC_ALL | TMPDIR | LD_LIBRARY_PATH | PIP_* | *_PROXY | *_proxy | SSL_CERT_FILE | SSL_CERT_DIR | REQUESTS_CA_BUNDLE)
      kept+=("$name=${!name}") ;;
  esac
done < <(compgen -e)

alone() { env -i "${kept[@]}" "$@"; }

[[ ${INPUT_EXTRAS:-} =~ ^([a-z0-9-]+(,[a-z0-9-]+)*)?$ ]] || refuse "extras must be names with commas between them, such as mcp,openapi"
extras=cli,coding
case ${INPUT_MODEL:-} in
  anthropic:*) extras+=,anthropic ;;
  openai:* | openai-chat:*) extras+=,openai ;;
  gemini:*) extras+=,google ;;
esac
[ -z "${INPUT_EXTRAS:-}" ] || extras+=,$INPUT_EXTRAS

# -I and the folder keep Python from importing modules of the workspace.
place=$(mktemp -d "$RUNNER_TEMP/handrail-XXXXXXXX")
cd "$place"
python=${INPUT_PYTHON:-python3}
alone "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' || refuse "Python 3.11 or later is needed: see actions/setup-python"
alone "$python" -I -m venv "$place/venv"
alone "$place/venv/bin/python" -I -m pip install --quiet --disable-pip-version-check \
  --constraint "$GITHUB_ACTION_PATH/constraints.txt" "$GITHUB_ACTION_PATH[$extras]"
echo "bin=$place/venv/bin" >>"$GITHUB_OUTPUT"
