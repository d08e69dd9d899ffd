declare module 'mongodb/lib/cmap/commands.js' {
  /** Documents of a command as a section of their own (OP_MSG, kind 1), each chunk of them as BSON. */
  export class DocumentSequence {
    constructor(field: string);
    /** The bytes of the section. */
    toBin(): Uint8Array;
  }
}
