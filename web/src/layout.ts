/** Where the parts of an envelope stand. */

export const HEAD_BYTES = 76;
export const BOUNDS_BYTES = 192;
export const DIGEST_BYTES = 32; // of a task, an identity, a commitment
export const SALT_BYTES = 16;
export const KEY_ID_BYTES = 8;
