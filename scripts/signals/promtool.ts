import path from 'node:path';
import { unpackedPackage } from '#scripts/services/debian.ts';
import { onPath } from '#scripts/services/on-path.ts';

/** Returns `promtool` from PATH, otherwise that of Debian's package of Prometheus. Returns the reason if the machine has neither. */
export async function findPromtool(env = process.env): Promise<{ file: string } | { file: null; missing: string }> {
  const found = onPath(['promtool'], env.PATH);
  if (found !== undefined) return { file: found };
  const unpacked = await unpackedPackage('prometheus', false, env);
  if (unpacked.folder === null) return { file: null, missing: unpacked.missing };
  return { file: path.join(unpacked.folder, 'usr/bin/promtool') };
}
