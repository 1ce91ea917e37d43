import { globSync } from 'node:fs';
import path from 'node:path';
import { unpackedPackage } from '#scripts/services/debian.ts';
import { onPath } from '#scripts/services/on-path.ts';

/** A Chromium that this machine can run. */
export interface Chromium {
  file: string;
  /** Environment that finds its libraries. */
  env: NodeJS.ProcessEnv;
}

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Returns Chromium from PATH, otherwise that of Debian with its libraries. Returns the reason if the machine has neither. */
export async function findChromium(env = process.env): Promise<Chromium | { file: null; missing: string }> {
  const found = onPath(NAMES, env.PATH);
  if (found !== undefined) return { file: found, env };
  const debian = await unpackedPackage('chromium', true, env);
  return debian.folder === null ? { file: null, missing: debian.missing } : unpacked(debian.folder, env);
}

/** Debian's wrapper script would read its settings below /etc, so the program is started itself. */
function unpacked(folder: string, env: NodeJS.ProcessEnv): Chromium {
  const libraries = globSync('{usr/,}lib/*-linux-gnu/{,*/}lib*.so*', { cwd: folder });
  const folders = new Set(libraries.map((name) => path.dirname(path.join(folder, name))));
  const searched = [...folders, env.LD_LIBRARY_PATH ?? ''];
  return {
    file: path.join(folder, 'usr/lib/chromium/chromium'),
    env: { ...env, LD_LIBRARY_PATH: searched.filter((one) => one !== '').join(':') },
  };
}
