"""What does it cost? Each module measures one thing on a folder, beside what it is compared with."""
