//! The files of blktrace(8): one for each processor, records of 48 bytes with what belongs to them.
