"""The queue of a rack's jobs, and the service that starts and supervises them."""
