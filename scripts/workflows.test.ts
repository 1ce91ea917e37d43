import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { RUST_VERSION } from '#scripts/services/engine/toolchain.ts';

const FOLDER = path.resolve(import.meta.dirname, '../.github/workflows');

/** Returns the faults of a workflow: what a changed tag, a stolen token or a hostile pull request could use. */
function faultsOf(text: string): readonly string[] {
  const faults: string[] = [];
  const lines = text.split('\n');
  for (const [at, line] of lines.entries()) {
    const [, action, pin = ''] = /\buses:\s*([^\s@#]+)(.*)$/.exec(line) ?? [];
    if (action === undefined) continue;
    if (!/^@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(pin)) faults.push(`${action} is not pinned by its commit`);
    if (action === 'actions/checkout' && !/^ +with: \{.*\bpersist-credentials: false\b/.test(lines[at + 1] ?? ''))
      faults.push('checkout leaves its token in .git/config');
  }
  if (!/^permissions:\n {2}contents: read\n(?! )/m.test(text)) faults.push('the token may do more than read');
  if (/^ +permissions:/m.test(text)) faults.push('a job widens the permissions');
  if (/\bpull_request_target\b/.test(text)) faults.push('a pull request of a fork runs with secrets');
  if (/\brun:.*\$\{\{/.test(text)) faults.push('an expression is inserted into a shell command');
  for (const [, version = ''] of text.matchAll(/\brustup (?:toolchain install|default) (\S+)/g))
    if (version !== RUST_VERSION) faults.push(`Rust ${version} is not the version that builds the engine`);
  const [jobs, limits] = [/^ {4}runs-on:/gm, /^ {4}timeout-minutes:/gm].map((form) => text.match(form)?.length);
  if (jobs !== limits) faults.push('a job has no time limit');
  return faults;
}

t.test('every workflow pins its actions by commit and may only read', async (t) => {
  const files = readdirSync(FOLDER);
  t.strictSame(files, ['ci.yml', 'image.yml', 'packages.yml']);
  const pins = new Map<string, string>();
  for (const file of files) {
    const text = readFileSync(path.join(FOLDER, file), 'utf8');
    t.strictSame(faultsOf(text), [], file);
    for (const [, action = '', pin = ''] of text.matchAll(/uses: (\S+?)@(.*)$/gm)) {
      t.equal(pins.get(action) ?? pin, pin, `${action} has one version`);
      pins.set(action, pin);
    }
  }
});

t.test('the check of workflows finds an action by tag, a stored token and wide permissions', async (t) => {
  const good = readFileSync(path.join(FOLDER, 'packages.yml'), 'utf8');
  const cases: readonly [RegExp, string, RegExp][] = [
    [/@[0-9a-f]{40} # (v\d+)\S*/, '@$1', /not pinned/],
    [/@[0-9a-f]{40} # v\S*/, '@main', /not pinned/],
    [/ # v\d+\.\d+\.\d+/, '', /not pinned/],
    [/\n +with: \{ persist-credentials: false \}/, '', /token/],
    [/contents: read/, 'contents: write', /more than read/],
    [/(\n +)runs-on/, '$1permissions: write-all$1runs-on', /widens/],
    [/pull_request:/, 'pull_request_target:', /fork/],
    [/run: npm ci/, 'run: echo $' + '{{ github.head_ref }}', /expression/],
    [/\n +timeout-minutes: 10/, '', /time limit/],
    [/run: npm ci/, 'run: rustup toolchain install stable', /Rust stable is not/],
  ];
  for (const [from, to, fault] of cases) t.match(faultsOf(good.replace(from, to)).join('\n'), fault, to);
});
