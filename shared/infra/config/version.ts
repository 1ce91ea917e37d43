import manifest from '../../../package.json' with { type: 'json' };

/** The version that health, index and OpenAPI tell. */
export const VERSION: string = manifest.version;
