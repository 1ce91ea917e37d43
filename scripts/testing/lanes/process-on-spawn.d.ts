/** The part of process-on-spawn that the preload uses; the package has no types of its own. */
declare module 'process-on-spawn' {
  const processOnSpawn: { removeAllListeners(): void };
  export = processOnSpawn;
}
