import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { BASELINE, SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';

/** A revision of this repository that is started beside the present one. */
export interface EarlierRelease {
  commit: string;
  name: string;
}

/** The history does not contain an earlier release. The message names the step that obtains it. */
export class NoEarlierRelease extends Error {}

const MIGRATIONS = 'shared/infra/mongo/schema/migrate.ts';
/** The declaration of the baseline, which begins in its first commit. */
const BASELINE_LINE = `export const BASELINE = ${BASELINE};`;

/**
 * Chooses the earlier release of the checkout in `root`: the last release tag (`v1.2.3`) before HEAD. Without a tag, it is the last commit
 * before the one that introduced the present schema version. As long as the baseline is the present version, it is the first commit of the
 * baseline: no process of an earlier one may run beside this code.
 * @throws NoEarlierRelease if the history lacks it
 */
export function chooseRelease(root: string, present = SCHEMA_VERSION): EarlierRelease {
  const git = gitIn(root);
  const tag = git('describe', '--tags', '--abbrev=0', '--match', 'v[0-9]*', 'HEAD^');
  const tagged = tag === undefined ? undefined : git('rev-parse', `${tag}^{commit}`);
  if (tag !== undefined && tagged !== undefined) return { commit: tagged, name: tag };
  // The oldest commit of a cut history seems to introduce all that it has.
  if (git('rev-parse', '--is-shallow-repository') === 'true')
    throw new NoEarlierRelease('the history is cut (a shallow clone): run `git fetch --unshallow --tags`');
  const introduces = present === BASELINE ? BASELINE_LINE : `version: ${present},`;
  const [introduced] = git('log', '--format=%H', '--reverse', `-S${introduces}`, '--', MIGRATIONS)?.split('\n') ?? [];
  const commit = git('rev-parse', '--verify', '--quiet', present === BASELINE ? `${introduced}` : `${introduced}^`);
  if (commit === undefined) throw new NoEarlierRelease('the history has no release tag and no commit of the baseline');
  return { commit, name: commit.slice(0, 12) };
}

/** Returns a function that runs git in a folder and returns its trimmed output; undefined if it fails. */
function gitIn(root: string): (...args: string[]) => string | undefined {
  return (...args) => {
    try {
      const stdio: ['ignore', 'pipe', 'ignore'] = ['ignore', 'pipe', 'ignore'];
      return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio, maxBuffer: 64 * 1024 * 1024 }).trim();
    } catch {
      return undefined;
    }
  };
}

type Lock = { packages: Record<string, { version?: string }> };

/**
 * Writes the files of a release into the folder. It shares the packages of this checkout if those that the release imports itself have the
 * same versions; otherwise npm installs its own.
 */
export function unpackRelease(root: string, { commit }: EarlierRelease, folder: string): void {
  mkdirSync(folder, { recursive: true });
  const archive = path.join(folder, 'release.tar');
  execFileSync('git', ['archive', '--format=tar', `--output=${archive}`, commit], { cwd: root });
  execFileSync('tar', ['-xf', archive, '-C', folder]);
  rmSync(archive);
  const read = <Content>(from: string, name: string): Content =>
    JSON.parse(readFileSync(path.join(from, name), 'utf8'));
  const [theirs, ours] = [read<Lock>(folder, 'package-lock.json'), read<Lock>(root, 'package-lock.json')];
  const { dependencies = {} } = read<{ dependencies?: object }>(folder, 'package.json');
  const versionIn = ({ packages }: Lock, name: string) => packages[`node_modules/${name}`]?.version;
  if (Object.keys(dependencies).every((name) => versionIn(theirs, name) === versionIn(ours, name))) {
    symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
    return;
  }
  const args = ['ci', '--omit=dev', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
}
