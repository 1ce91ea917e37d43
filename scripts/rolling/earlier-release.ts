import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';

/** A revision of this repository that is started beside the present one. */
export interface EarlierRelease {
  commit: string;
  /** A tag, or the beginning of the commit's id. */
  name: string;
  /** The rule by which the revision was chosen. */
  why: string;
  /** Version of its schema; null if its file of migrations is elsewhere. */
  schema: number | null;
}

/** The history does not contain an earlier release. The message names the step that obtains it. */
export class NoEarlierRelease extends Error {}

const MIGRATIONS = 'shared/infra/mongo/schema/migrate.ts';

/**
 * Chooses the earlier release of the checkout in `root`: `from`, or else the last release tag (`v1.2.3`) before HEAD. Without a tag, it is
 * the last commit before the one that introduced the present schema version.
 * @throws NoEarlierRelease if the history lacks it
 */
export function chooseRelease(root: string, from?: string): EarlierRelease {
  const git = gitIn(root);
  if (git('rev-parse', '--git-dir') === undefined) throw new NoEarlierRelease('this folder is no checkout of git');
  const releaseAt = (revision: string, name: string | undefined, why: string): EarlierRelease | undefined => {
    const commit = git('rev-parse', '--verify', '--quiet', `${revision}^{commit}`);
    if (commit === undefined) return undefined;
    return { commit, name: name ?? commit.slice(0, 12), why, schema: schemaIn(git('show', `${commit}:${MIGRATIONS}`)) };
  };
  if (from !== undefined) {
    const chosen = releaseAt(from, undefined, '--from');
    if (chosen === undefined) throw new NoEarlierRelease(`--from ${from}: the history has no such revision`);
    return chosen;
  }
  const tag = git('describe', '--tags', '--abbrev=0', '--match', 'v[0-9]*', 'HEAD^');
  const byTag = tag === undefined ? undefined : releaseAt(tag, tag, 'the last release tag before HEAD');
  if (byTag !== undefined) return byTag;
  const [introduced] =
    git('log', '--format=%H', '--reverse', `-Sversion: ${SCHEMA_VERSION},`, '--', MIGRATIONS)?.split('\n') ?? [];
  const why = `no release tag: the last commit before schema version ${SCHEMA_VERSION}`;
  const bySchema = introduced ? releaseAt(`${introduced}^`, undefined, why) : undefined;
  if (bySchema !== undefined && bySchema.schema !== null && bySchema.schema < SCHEMA_VERSION) return bySchema;
  throw new NoEarlierRelease(
    git('rev-parse', '--is-shallow-repository') === 'true'
      ? 'the history is cut (a shallow clone): run `git fetch --unshallow --tags`, or pass --from REVISION'
      : `the history has no release tag and no commit with a schema older than ${SCHEMA_VERSION}: pass --from REVISION`,
  );
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

function schemaIn(source: string | undefined): number | null {
  const versions = [...(source ?? '').matchAll(/^ *\{ version: (\d+),/gm)].map(([, version]) => Number(version));
  return versions.length === 0 ? null : Math.max(...versions);
}

/** How the earlier release obtained its packages. */
export type Packages = 'shared' | 'its own';

/**
 * Writes the files of a release into the folder. It shares the packages of this checkout if both locks name the same ones for production;
 * otherwise npm installs its own. `mayShareDirect` also shares them if only packages differ that the product does not import itself.
 */
export function unpackRelease(
  root: string,
  { commit }: EarlierRelease,
  folder: string,
  { mayShareDirect = false }: { mayShareDirect?: boolean } = {},
): Packages {
  mkdirSync(folder, { recursive: true });
  const archive = path.join(folder, 'release.tar');
  execFileSync('git', ['archive', '--format=tar', `--output=${archive}`, commit], { cwd: root });
  execFileSync('tar', ['-xf', archive, '-C', folder]);
  rmSync(archive);
  if (sharePackages(root, folder, mayShareDirect)) {
    symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
    return 'shared';
  }
  const args = ['ci', '--omit=dev', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
  return 'its own';
}

type Lock = { packages: Record<string, { version?: string; dev?: boolean; optional?: boolean }> };

function sharePackages(root: string, folder: string, mayShareDirect: boolean): boolean {
  if (!existsSync(path.join(folder, 'package-lock.json'))) return true;
  const [theirs, ours] = [lockIn(folder), lockIn(root)];
  const manifest = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as {
    dependencies?: Record<string, string>;
  };
  const direct = Object.keys(manifest.dependencies ?? {}).map((name) => `node_modules/${name}`);
  const names = mayShareDirect ? direct : Object.keys(theirs.packages).filter((name) => isNeeded(theirs, name));
  return names.every((name) => theirs.packages[name]?.version === ours.packages[name]?.version);
}

function lockIn(folder: string): Lock {
  return JSON.parse(readFileSync(path.join(folder, 'package-lock.json'), 'utf8')) as Lock;
}

/** The binary of Node that some releases name as an optional package is not needed, because they run on the Node of this checkout. */
function isNeeded({ packages }: Lock, name: string): boolean {
  return name !== '' && packages[name]?.dev !== true && packages[name]?.optional !== true;
}
