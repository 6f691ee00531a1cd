package yak;

/**
 * The test reaches into the broker's objects, which are in other processes here.
 * An Error, because tests repeat what throws an Exception until it succeeds.
 */
public final class InProcessOnly extends Error {
    public InProcessOnly(String what) {
        super("in-process only: " + what);
    }
}
