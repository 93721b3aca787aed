# SPDX-License-Identifier: MIT
#
# ckptfs check --full of a checkpoint with Megatron-core's integrity.json: the SHA-256 of each
# file of the directory, by Python's hashlib.
need python3 jq

source=$(fixture megatron)
chmod -R u+w "$source"
record() {
	python3 - "$source" <<'END'
import hashlib, json, os, sys
source = sys.argv[1]
files = {name: hashlib.sha256(open(os.path.join(source, name), "rb").read()).hexdigest()
         for name in sorted(os.listdir(source)) if name != "integrity.json"}
with open(os.path.join(source, "integrity.json"), "w") as file:
    json.dump({"algorithm": "sha256", "files": files}, file, indent=2)
END
}

# findings [ARGUMENT...]: the exit status, and the findings of integrity.json.
findings() {
	"$CKPTFS" check --json "$source" "$@" >json 2>"$WORK/out"
	echo "$?"
	jq -r '.findings[] | select(.kind == "integrity") | "\(.file) \(.severity) \(.errno) \(.what)"' json
}

equal 'without the file' "$(findings --full)" 0
record
equal 'equal' "$(findings --full)" 0
equal 'the metadata is among the files' "$(jq -r '.files | has(".metadata")' "$source/integrity.json")" true
# A byte that no checksum covers: JSON beside the shards.
sed -i 's/}$/ }/' "$source/metadata.json"
equal 'a changed file: not without --full' "$(findings)" 0
equal 'a changed file' "$(findings --full)" \
	'1
metadata.json null null its SHA-256 is not that of integrity.json'
equal 'a changed file: both sums' "$(jq -r '.findings[] | select(.kind == "integrity") | .found' json)" \
	"$(sha256sum "$source/metadata.json" | cut -d' ' -f1)"
check 'a changed file: a line' grep -q \
	"^its SHA-256 is not that of integrity.json; metadata.json; expected $(jq -r \
		'.files["metadata.json"]' "$source/integrity.json"), found" <("$CKPTFS" check --full "$source")
cp "$FIXTURES/megatron/metadata.json" "$source/metadata.json"
jq '.files["model.py"] = .files["metadata.json"] | .files["../other"] = .files["metadata.json"]' \
	"$source/integrity.json" >other.json
cp other.json "$source/integrity.json"
equal 'files that are missing, or not in the directory' "$(findings --full)" \
	'1
../other null EPERM in integrity.json, but cannot be read
model.py null ENOENT in integrity.json, but cannot be read'

warning='integrity.json warning null the files are not compared with integrity.json'
echo '{"algorithm": "md5", "files": {"a": "b"}}' >"$source/integrity.json"
equal 'another algorithm' "$(findings --full)" "0
$warning: unknown algorithm; known is sha256"
for text in '[]' '{"files": 3}' '{"files": {"a": 1}}' '{' '{"algorithm": "sha256"}'; do
	echo "$text" >"$source/integrity.json"
	equal "another form: $text" "$(findings --full | sed 's/: JSON: byte [0-9]*: .*//')" "0
$warning"
done
done_testing
